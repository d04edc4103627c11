package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"ropeline/admitter/token"
	"ropeline/booking"
	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/slots"
)

// gatehouse signs tokens and identifies who brings them.
type gatehouse struct {
	admissions
	authority *token.Authority
	over      map[string]bool // sessions that ended early
}

func newGatehouse(t *testing.T) *gatehouse {
	t.Helper()
	keys, err := token.Generate(token.EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	g := &gatehouse{authority: token.New(keys, token.Config{}), over: map[string]bool{}}
	rooms := map[string]config.Room{"show": {ID: "show", Channels: []int{0, 3}}, "club": {ID: "club", Identity: "X-Customer"}}
	g.admissions = admissions{
		verify: g.authority.Verify,
		room:   func(id string) (config.Room, bool) { r, ok := rooms[id]; return r, ok },
		ended:  func(_, session string) bool { return g.over[session] },
	}
	return g
}

func (g *gatehouse) token(t *testing.T, c token.Claims) string {
	t.Helper()
	c.Expires = time.Now().Add(time.Minute)
	tok, err := g.authority.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func asked(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/events/42/holds", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestIdentify_TellsRoomCustomerChannelsAndSession(t *testing.T) {
	g := newGatehouse(t)
	tok := g.token(t, token.Claims{Room: "show", Visitor: "ann", ID: "p1", Number: 7, Generation: 3})
	got, ok := g.identify(asked("X-Queue-Token", tok))
	if !ok || got.Room != "show" || got.Customer != "ann" || got.Channels != booking.Channels(1|1<<3) {
		t.Fatalf("got %+v, %v", got, ok)
	}
	session, err := slots.ParseSession(got.Session)
	if err != nil || session.Place.ID != "p1" || session.Place.Number != 7 || session.Place.Generation != 3 || session.Place.Digest != "" {
		t.Errorf("the session is %+v, %v", session, err)
	}
	digest := "0123456789abcdefghij-_"
	club, _ := g.identify(asked("X-Queue-Token", g.token(t, token.Claims{Room: "club", Visitor: digest, ID: "p2", Number: 1, Generation: 3})))
	if session, err := slots.ParseSession(club.Session); err != nil || session.Place.Digest != digest || club.Channels.Mask() != 1 {
		t.Errorf("a customer known by a header: %+v, %v, channels %b", session, err, club.Channels.Mask())
	}
	outage, ok := g.identify(asked("X-Queue-Token", g.token(t, token.Claims{Room: "show", Visitor: "ben", ID: "p3", Outage: true})))
	if !ok || outage.Session != "" {
		t.Errorf("an admission without Redis: %+v, %v, want no session", outage, ok)
	}
}

func TestIdentify_BelievesNothingButAToken(t *testing.T) {
	g, stranger := newGatehouse(t), newGatehouse(t)
	good := token.Claims{Room: "show", Visitor: "ann", ID: "p1", Number: 7, Generation: 3}
	other, gone := good, good
	other.Room, gone.ID = "elsewhere", "over"
	g.over["over"] = true
	for name, header := range map[string][]string{
		"nothing":           nil,
		"headers":           {"X-Ropeline-Room", "show", "X-Ropeline-Visitor", "ann", "X-Ropeline-Session", "p1"},
		"an empty token":    {"X-Queue-Token", ""},
		"no token":          {"X-Queue-Token", "a.b.c"},
		"forged":            {"X-Queue-Token", stranger.token(t, good)},
		"of no room here":   {"X-Queue-Token", g.token(t, other)},
		"ended":             {"X-Queue-Token", g.token(t, gone)},
		"two tokens":        {"X-Queue-Token", g.token(t, good), "X-Queue-Token", g.token(t, good)},
		"as a bearer token": {"Authorization", "Bearer " + g.token(t, good)},
	} {
		if got, ok := g.identify(asked(header...)); ok {
			t.Errorf("%s: got %+v, want nobody", name, got)
		}
	}
}
