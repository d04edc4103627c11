package proxy

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ropeline/queue"
)

func TestCore_ItsOwnPathsNeedNoLineAndNoToken(t *testing.T) {
	core := newShowCore()
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	h.crowded()
	b := h.browser()
	if got := b.do("GET", "/v1/events/1/seats?q=%zz", "", "X-Ropeline-Visitor: me", "X_Ropeline_Room: "+h.room(), "X-Forwarded-For: 1.2.3.4").seen(); got.Target != "/v1/events/1/seats?q=%zz" ||
		got.Host != hall || got.Header.Get(visitorHeader) != "" || got.Header.Get("X_Ropeline_Room") != "" || got.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the core saw %+v", got)
	}
	b.open("/events/1/seats").seen()
	if r := b.do("POST", "/events/1/holds", "{}").want(403); r.Header.Get(stateHeader) != "" || !strings.Contains(r.body, "the core says") {
		t.Errorf("got %v %q, want the core's own refusal", r.Header, r.body)
	}
	// The rest of the room is gated as ever.
	b.open("/events/1").parked()
	b.open("/").parked()
	b.do("GET", "/holds", "").problem(403, "not-admitted")
	b.do("GET", "/V1/events/1/seats", "").problem(403, "not-admitted")
	if core.unproven() != nil {
		t.Errorf("the core was told %v", core.unproven())
	}
	for outcome, want := range map[string]float64{"core": 3, "parked": 2, "refused": 2} {
		if got := h.requests(h.room(), outcome); got != want {
			t.Errorf("%v requests %s, want %v", got, outcome, want)
		}
	}
}

// requests is the count of a room's requests with an outcome.
func (h *house) requests(room, outcome string) float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "ropeline_proxy_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["room"] == room && labels["outcome"] == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestCore_AsTheSiteItServesWhatNoRoomMatches(t *testing.T) {
	core, rm := newShowCore(), coreRoom(hall)
	rm.Paths = []string{"/tickets/"}
	h := newHouse(t, houseConfig{rooms: []Room{rm}, core: core})
	if err := h.edge.SetSite(h.cfg.rooms, coreURL()); err != nil {
		t.Fatal(err)
	}
	b := h.browser()
	tok := b.enter().AccessToken
	h.crowded()
	if got := b.do("POST", "/v1/events/1/holds", "{}").seen(); got.Header.Get(roomHeader) != h.room() || got.Header.Get(tokenHeader) != tok {
		t.Errorf("outside of the room's paths the core saw %v", got.Header)
	}
	c := h.browser()
	c.host = "elsewhere.test"
	c.do("POST", "/v1/events/1/holds", "{}").want(403)
	c.do("GET", "/", "").seen()
	c.do("GET", "/tickets/", "").seen() // another host
	h.browser().open("/tickets/1").parked()
	if core.holds.Load() != 1 || core.unproven() != nil {
		t.Errorf("%d holds, told %v", core.holds.Load(), core.unproven())
	}
}

func TestCore_LearnsWhoBringsAValidToken(t *testing.T) {
	for _, alg := range []string{"EdDSA", "HS256"} {
		t.Run(alg, func(t *testing.T) {
			core := newShowCore()
			h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core, alg: alg})
			b := h.browser()
			a := b.enter()
			claims, err := h.tokens.Verify(h.room(), a.AccessToken)
			if err != nil {
				t.Fatal(err)
			}
			h.crowded()
			name := accessCookie(h.room())
			for _, header := range []string{
				"X-Queue-Token: " + a.AccessToken, "Cookie: " + name + "=" + a.AccessToken, "Cookie: __Host-" + name + "=" + a.AccessToken,
				"Cookie: " + name + "=x; other=1; " + name + "=" + a.AccessToken,
			} {
				for _, target := range []string{"/v1/events/1/holds", "/events/1/holds", "/holds/abc/extend", "/not/its/own"} {
					got := h.browser().do("POST", target, "{}", header).seen()
					for header, want := range map[string]string{
						visitorHeader: claims.Visitor, roomHeader: h.room(), placeHeader: "1", sessionHeader: claims.ID, tokenHeader: a.AccessToken,
					} {
						if v := got.Header.Values(header); len(v) != 1 || v[0] != want {
							t.Errorf("%s: the core saw %s %q, want %q", target, header, v, want)
						}
					}
					if strings.Contains(got.Header.Get("Cookie"), "ropeline") {
						t.Errorf("%s: the core saw our cookies: %v", target, got.Header)
					}
				}
			}
			held := core.holds.Load()
			for name, tok := range badTokens(t, h, a.AccessToken) {
				for _, header := range []string{"X-Queue-Token: " + tok, "Cookie: " + accessCookie(h.room()) + "=" + tok} {
					if r := h.browser().do("POST", "/events/1/holds", "{}", header, "X-Ropeline-Room: "+h.room()); r.StatusCode != 403 || r.Header.Get(stateHeader) != "" {
						t.Errorf("%s: %d %v", name, r.StatusCode, r.Header)
					}
				}
			}
			if core.holds.Load() != held || core.unproven() != nil {
				t.Errorf("%d holds by bad tokens, told %v", core.holds.Load()-held, core.unproven())
			}
		})
	}
}

// Whatever the core owns and however a path is spelled: it hears of a visitor only with a valid token, and serves nothing that
// could be read as a path of holds without one.
func TestCore_NoSpellingReachesHoldsWithoutAToken(t *testing.T) {
	for name, owns := range map[string]func(string) bool{
		"its own spelling": ownsSome, "everything": func(string) bool { return true }, "nothing": func(string) bool { return false },
	} {
		for paths, route := range map[string]Route{
			"whole host": {}, "path room": {Paths: []string{"/v1/"}}, "gated path room": {Paths: []string{"/v1/"}, Gate: true},
			"public path": {PublicPaths: []string{"/v1/events/1/holds"}},
		} {
			t.Run(name+", "+paths, func(t *testing.T) {
				core, rm := newShowCore(), coreRoom(hall)
				core.owns = owns
				rm.Paths, rm.PublicPaths, rm.Gate = route.Paths, route.PublicPaths, route.Gate
				h := newHouse(t, houseConfig{rooms: []Room{rm}, core: core})
				if err := h.edge.SetSite(h.cfg.rooms, coreURL()); err != nil {
					t.Fatal(err)
				}
				b := h.browser()
				tok := b.enter().AccessToken
				h.crowded()
				addr := strings.TrimPrefix(h.url, "http://")
				expired := badTokens(t, h, tok)["expired"]
				for _, target := range []string{
					"/v1/events/1/holds", "/events/1/holds", "/V1/events/1/holds", "/v1/EVENTS/1/Holds", "/v1//events/1/holds", "/v1//holds", "//v1/events/1/holds",
					"/v1/events/1/holds/../seats", "/v1/events/1/seats/../holds", "/v1/events/1/./holds", "/v1/events/1/holds/", "/v1/events/1//holds",
					"/v1/events/1/%68olds", "/v1/events/1%2fholds", "/v1/events/1/holds%2f", "/v1/events/1/holds;x=1", "/v1/events/1;/holds", `/v1/events/1\holds`,
					"/v1/events/1%5cholds", "/v1/events/1/%2e%2e/1/holds", "/v1/events/1/%252e%252e/1/holds", "/v1/events/1/holds%00", "/v1/events/1/holds?x", "/v1/events/1/holds#x",
					"/v1/events/1/queue/../holds", "/events/1/queue/%2e%2e/holds", "/v1/events/1/status/../holds", "/v1/holds/7/extend", "/holds/7/../7/checkout",
					"/_ropeline/../v1/events/1/holds", "/_ropeline/%2e%2e/events/1/holds", "/x/../v1/events/1/holds", "/%76%31/events/1/holds",
					"http://" + hall + "/v1/events/1/holds", "/events/1/queue/holds", "/v1/events/1/queue/me/holds",
				} {
					for _, method := range []string{"GET", "POST", "DELETE"} {
						for _, headers := range []string{
							"", "X-Queue-Token: " + expired + "\r\n", "X-Ropeline-Room: " + h.room() + "\r\nX-Ropeline-Visitor: v\r\nX_Queue_Token: " + tok + "\r\n",
							"Connection: X-Ropeline-Room\r\nx-ropeline-session: s\r\nCookie: ropeline_other=" + tok + "\r\n",
						} {
							askRaw(t, addr, method+" "+target+" HTTP/1.1\r\nHost: "+hall+"\r\n"+headers+"Content-Length: 0\r\nConnection: close\r\n\r\n")
						}
					}
				}
				if core.holds.Load() != 0 || core.unproven() != nil {
					t.Errorf("%d holds, told %v", core.holds.Load(), core.unproven())
				}
				if name == "nothing" && paths == "public path" {
					return // a public path of no core brings no visitor at all
				}
				// With a token there are holds, so the test can fail.
				h.browser().do("POST", "/v1/events/1/holds", "{}", "X-Queue-Token: "+tok).seen()
				if core.holds.Load() != 1 {
					t.Errorf("%d holds with a token", core.holds.Load())
				}
			})
		}
	}
}

func TestCore_OfSeveralRoomsTheEventsOwnComesFirst(t *testing.T) {
	core, one, two, away := newShowCore(), coreRoom(hall), coreRoom(hall), roomOn(hall)
	two.Paths, away.Paths = []string{"/two/"}, []string{"/away/"}
	h := newHouse(t, houseConfig{rooms: []Room{one, two, away}, core: core})
	first, second := one.Route.Room, two.Route.Room
	core.leadsTo("1", first)
	core.leadsTo("2", second)
	core.leadsTo("h2", second)
	b := h.browser()
	tokens := map[string]string{}
	for _, id := range []string{first, second, away.Route.Room} {
		tokens[id] = b.do("POST", "/_ropeline/events/"+id+"/queue", "{}").place(201).AccessToken
	}
	cookie := func(rooms ...string) string {
		var pairs []string
		for _, id := range rooms {
			pairs = append(pairs, accessCookie(id)+"="+tokens[id])
		}
		return "Cookie: " + strings.Join(pairs, "; ")
	}
	for _, c := range []struct {
		target string
		header string
		want   string   // room
		looked []string // ids asked for
	}{
		{"/v1/events/1/holds", cookie(first, second), first, []string{"1"}},
		{"/v1/events/2/holds", cookie(first, second), second, []string{"2"}},
		{"/events/2/holds", cookie(second, first), second, []string{"2"}},
		{"/events/3/holds", cookie(second, first), first, []string{"3"}}, // nothing is known of it: the address's room
		{"/holds/h2", cookie(first, second), second, []string{"h2"}},
		{"/holds/h1", cookie(second, first), first, []string{"h1"}},
		// One room needs no choice, and a room that leads elsewhere is none.
		{"/v1/events/1/holds", cookie(second), second, nil},
		{"/v1/events/1/holds", cookie(second, away.Route.Room), second, nil},
		{"/v1/events/1/holds", "X-Queue-Token: " + tokens[second], second, nil},
		// The header says what its sender means, unless the event says otherwise.
		{"/holds/h3", cookie(first) + "\nX-Queue-Token: " + tokens[second], second, []string{"h3"}},
		{"/v1/events/1/holds", cookie(first) + "\nX-Queue-Token: " + tokens[second], first, []string{"1"}},
		// A room of the event that lets nobody in leaves it to the others.
		{"/v1/events/1/holds", cookie(second) + "; " + accessCookie(first) + "=x", second, []string{"1"}},
	} {
		core.lookups()
		got := h.browser().do("POST", c.target, "{}", strings.Split(c.header, "\n")...).seen()
		if got.Header.Get(roomHeader) != c.want || got.Header.Get(tokenHeader) != tokens[c.want] {
			t.Errorf("%s with %.40s...: room %q, want %q (first %q)", c.target, c.header, got.Header.Get(roomHeader), c.want, first)
		}
		if looked := core.lookups(); !slices.Equal(looked, c.looked) {
			t.Errorf("%s: asked for ids %v, want %v", c.target, looked, c.looked)
		}
	}
	// A token of a room that does not lead to the core says nothing there.
	h.browser().do("POST", "/v1/events/1/holds", "{}", "X-Queue-Token: "+tokens[away.Route.Room], cookie(away.Route.Room)).want(403)
	if core.unproven() != nil {
		t.Errorf("told %v", core.unproven())
	}
}

func TestCore_ManyTokensAreNotAllLookedAt(t *testing.T) {
	core := newShowCore()
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	tok := h.browser().enter().AccessToken
	name := accessCookie(h.room())
	h.browser().do("POST", "/events/1/holds", "", "Cookie: "+strings.Repeat(name+"=x; ", mostTokens-1)+name+"="+tok).seen()
	h.browser().do("POST", "/events/1/holds", "", "Cookie: "+strings.Repeat(name+"=x; ", mostTokens)+name+"="+tok).want(403)
	h.browser().do("POST", "/events/1/holds", "", "X-Queue-Token: "+tok, "Cookie: "+strings.Repeat(name+"=x; ", mostTokens)+"a=b").seen()
}

func TestCore_SessionsAreRenewedEndedAndExtendedAsAnywhere(t *testing.T) {
	core := newShowCore()
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	b := h.browser()
	b.open("/").seen() // admitted at once, for a short while
	if c, err := h.tokens.Verify(h.room(), b.accessCookie()); err != nil || !c.Provisional {
		t.Fatalf("first token %+v, %v", c, err)
	}
	r := b.do("GET", "/v1/events/1/seats?h.Cache-Control=public,+max-age=1", "")
	r.seen()
	full := r.Header.Get(tokenHeader)
	if c, err := h.tokens.Verify(h.room(), full); err != nil || c.Provisional || full != b.accessCookie() || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("renewed token %+v, %v, headers %v", c, err, r.Header)
	}
	h.pass(2 * time.Minute)
	if longer := b.do("POST", "/holds/7/checkout?h.X-Ropeline-Session=extend", ""); longer.Header.Get(tokenHeader) == "" || longer.Header.Get(tokenHeader) == full {
		t.Errorf("the session was not lengthened: %v", longer.Header)
	}
	end := b.do("POST", "/holds/7/checkout?h.X-Ropeline-Session=end", "")
	if end.seen(); end.cookie(accessCookie(h.room())) == nil || end.Header.Get(sessionHeader) != "" {
		t.Errorf("headers %v", end.Header)
	}
	h.browser().do("POST", "/events/1/holds", "", "X-Queue-Token: "+full).want(403)
	h.browser().do("GET", "/events/1/seats", "", "X-Queue-Token: "+full).seen()
	// Who is nobody can't end or extend anything.
	if r := h.browser().do("GET", "/events/1/seats?h.X-Ropeline-Session=extend", ""); r.Header.Get(tokenHeader) != "" || len(r.Cookies()) != 0 || r.Header.Get(sessionHeader) != "" {
		t.Errorf("headers %v", r.Header)
	}
}

func TestCore_ItsStreamsEndWithTheSession(t *testing.T) {
	core := newShowCore()
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	b := h.browser()
	tok := b.enter().AccessToken
	r, err := http.NewRequest("GET", h.url+"/v1/events/1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = hall
	r.Header.Set(tokenHeader, tok)
	res, err := h.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line := make([]byte, len("data: hello\n\n"))
	if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != "data: hello\n\n" {
		t.Fatalf("%q %v", line, err)
	}
	b.do("DELETE", b.api("/queue/me"), "").want(204)
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
		t.Errorf("rest %q, %v", rest, err)
	}
}

func TestCore_SaysItselfWhoMayKeepWhatItOwns(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: newShowCore()})
	b := h.browser()
	b.enter()
	for _, c := range []struct{ target, want string }{
		{"/events/1/seats?h.Cache-Control=public,+max-age=1&h.ETag=x", "public, max-age=1"},
		{"/events/1/seats?h.Cache-Control=no-cache", "no-cache"},
		{"/events/1/seats", "no-store"},
		{"/page?h.Cache-Control=public,+max-age=600", "private, max-age=600"}, // not its own
	} {
		if got := b.do("GET", c.target, "").Header.Get("Cache-Control"); got != c.want {
			t.Errorf("%s: %q, want %q", c.target, got, c.want)
		}
	}
	if got := h.browser().do("GET", "/events/1/seats?h.Cache-Control=public,+max-age=1", "").Header.Get("Cache-Control"); got != "public, max-age=1" {
		t.Errorf("without a token: %q", got)
	}
}

func TestCore_ItsCookieGoesToItAndToNobodyElse(t *testing.T) {
	core, rm, trusted, other := newShowCore(), coreRoom(hall), roomOn("trusted.test"), roomOn("other.test")
	trusted.ForwardToken = true
	h := newHouse(t, houseConfig{rooms: []Room{rm, trusted, other}, core: core})
	cookie := "Cookie: a=1; ropeline_customer=c1.x.y; ropeline_other=no; Ropeline_Customer=no; __Host-ropeline_customer=c1.z.y; b=2"
	for _, c := range []struct {
		host, room, target, want string
		set                      bool
	}{
		{hall, rm.Route.Room, "/events/1/seats", "a=1; b=2; ropeline_customer=c1.x.y; __Host-ropeline_customer=c1.z.y", true},
		{hall, rm.Route.Room, "/page", "a=1; b=2; ropeline_customer=c1.x.y; __Host-ropeline_customer=c1.z.y", true},
		{"trusted.test", trusted.Route.Room, "/page", "a=1; b=2; ropeline_customer=c1.x.y; __Host-ropeline_customer=c1.z.y", true},
		{"other.test", other.Route.Room, "/page", "a=1; b=2", false},
		{"nowhere.test", "", "/page", "a=1; b=2", false},
	} {
		b := h.browser()
		b.host = c.host
		headers := []string{cookie}
		if c.room != "" {
			headers = append(headers, "X-Queue-Token: "+b.do("POST", "/_ropeline/events/"+c.room+"/queue", "{}").place(201).AccessToken)
			b.cookies = map[string]*http.Cookie{}
		}
		r := b.do("GET", c.target+"?h.Set-Cookie=ropeline_customer=new&h.Set-Cookie=ropeline_customers=no", "", headers...)
		if got := strings.Join(r.seen().Header.Values("Cookie"), "\n"); got != c.want { // one line
			t.Errorf("%s%s: cookies %q, want %q", c.host, c.target, got, c.want)
		}
		if set := r.cookie("ropeline_customer") != nil; set != c.set || r.cookie("ropeline_customers") != nil {
			t.Errorf("%s%s: set %v, want %v", c.host, c.target, r.Cookies(), c.set)
		}
	}
}

func TestEdge_SetSiteRefusesUpstreamsItCannotReach(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	gated := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: newShowCore()})
	room := func(id string, upstream *url.URL) []Room {
		rm := gated.cfg.rooms[0]
		rm.Route.Room, rm.Upstream = id, upstream
		return []Room{rm}
	}
	site := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	for name, c := range map[string]struct {
		edge     *Edge
		rooms    []Room
		upstream *url.URL
		want     string
	}{
		"no core, site":           {h.edge, nil, coreURL(), `speaks "booking"`},
		"no core, room":           {h.edge, room("a", coreURL()), site, `room a: upstream booking://core`},
		"another scheme":          {gated.edge, nil, &url.URL{Scheme: "ftp", Host: "x"}, `speaks "ftp"`},
		"the core's cookie":       {gated.edge, room("customer", coreURL()), site, "room customer"},
		"the core's cookie, site": {gated.edge, room("customer", site), coreURL(), "room customer"},
		"that room without core":  {gated.edge, room("customer", site), site, ""},
		"both":                    {gated.edge, room("a", coreURL()), coreURL(), ""},
	} {
		err := c.edge.SetSite(c.rooms, c.upstream)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCore_WithoutOneItsSchemeIsGatedAsAnyOther(t *testing.T) {
	core := newShowCore()
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	h.edge.core = nil
	h.crowded()
	h.browser().do("GET", "/events/1/seats", "").problem(403, "not-admitted")
	h.browser().open("/events/1/queue/me").parked()
}

func TestCore_AnEndedSessionOnAnotherNodeIsNobody(t *testing.T) {
	core := newShowCore()
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	b := h.browser()
	tok := b.enter().AccessToken
	c, err := h.tokens.Verify(h.room(), tok)
	if err != nil {
		t.Fatal(err)
	}
	place := queue.Place{ID: c.ID, Generation: c.Generation, Number: c.Number}
	if _, err := h.line().Leave(context.Background(), place, c.Expires); err != nil {
		t.Fatal(err)
	}
	h.eventually("the session to be over", func() bool { return h.line().Ended(c.ID) })
	b.do("POST", "/events/1/holds", "{}").want(403)
	if core.holds.Load() != 0 || core.unproven() != nil {
		t.Errorf("%d holds, told %v", core.holds.Load(), core.unproven())
	}
}
