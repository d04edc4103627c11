package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestCoreQueue_TheQueueAPIStandsAtTheEventsAddresses(t *testing.T) {
	for _, version := range []string{"", "/v1"} {
		for _, byEvent := range []bool{true, false} {
			core := newShowCore()
			h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
			h.crowded()
			id := h.room()
			if byEvent {
				id = "17"
				core.leadsTo(id, h.room())
			}
			at := version + "/events/" + id
			b := h.browser()
			r := b.do("POST", at+"/queue", "{}")
			a := r.place(201)
			if a.State != "waiting" || a.QueueID == "" || r.Header.Get(stateHeader) != "queue" || r.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%s: %+v %v", at, a, r.Header)
			}
			if p := b.do("GET", at+"/queue/"+a.QueueID, "").place(200); p.Number != a.Number || p.State != "waiting" {
				t.Errorf("%s: poll %+v", at, p)
			}
			if p := b.do("GET", at+"/queue/me", "").place(200); p.Number != a.Number {
				t.Errorf("%s: poll by cookie %+v", at, p)
			}
			if p := b.do("POST", at+"/queue", "").place(201); p.Number != a.Number {
				t.Errorf("%s: joined again as %d, want %d", at, p.Number, a.Number)
			}
			// It is the same place at the other address.
			if p := b.poll(a.QueueID).place(200); p.Number != a.Number {
				t.Errorf("%s: %+v", at, p)
			}
			if s := b.do("GET", at+"/status", "").want(200); !strings.Contains(s.body, `"room":"`+h.room()+`"`) || s.Header.Get("Cache-Control") != "public, max-age=1" {
				t.Errorf("%s: status %v %s", at, s.Header, s.body)
			}
			b.do("DELETE", at+"/queue/me", "").want(204)
			b.do("GET", at+"/queue/"+a.QueueID, "").place(200)
			h.roomy()
			c := h.browser()
			if p := c.do("POST", at+"/queue", "{}").place(201); p.AccessToken == "" || c.accessCookie() != p.AccessToken {
				t.Errorf("%s: %+v, want to be admitted", at, p)
			}
			c.do("POST", "/events/17/holds", "{}").seen()
			if r := c.do("POST", at+"/queue/me/leave", "", "Content-Type: application/x-www-form-urlencoded").want(303); r.Header.Get("Location") != waitPath(h.room()) {
				t.Errorf("%s: %v", at, r.Header)
			}
			c.do("POST", "/events/17/holds", "{}").want(403)
			if core.asked.Load() != 2 {
				t.Errorf("%s: %d requests reached the core, want the two for holds", at, core.asked.Load())
			}
		}
	}
}

func TestCoreQueue_ThePlaceCookieGoesToBothAddresses(t *testing.T) {
	core := newShowCore()
	core.leadsTo("1", "")
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: core})
	core.leadsTo("1", h.room())
	h.crowded()
	paths := func(r *reply) (all []string) {
		for _, c := range r.Cookies() {
			if c.Name == placeCookie(h.room()) {
				if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
					t.Errorf("cookie %v", c)
				}
				all = append(all, c.Path)
			}
		}
		return all
	}
	b := h.browser()
	if got, want := paths(b.do("POST", "/v1/events/1/queue", "{}")), []string{placeCookiePath, "/v1/events/1/queue"}; !slices.Equal(got, want) {
		t.Errorf("joined: paths %q, want %q", got, want)
	}
	if got, want := paths(b.do("DELETE", "/v1/events/1/queue/me", "")), []string{placeCookiePath, "/v1/events/1/queue"}; !slices.Equal(got, want) {
		t.Errorf("left: paths %q, want %q", got, want)
	}
	if got, want := paths(h.browser().join()), []string{placeCookiePath}; !slices.Equal(got, want) {
		t.Errorf("joined at the other address: paths %q, want %q", got, want)
	}
}

func TestCoreQueue_AnEventsIDGoesBeforeARoomOfThatName(t *testing.T) {
	core, one, two := newShowCore(), coreRoom(hall), coreRoom(hall)
	one.Route.Room, two.Paths = "7", []string{"/two/"}
	h := newHouse(t, houseConfig{rooms: []Room{one, two}, core: core})
	core.leadsTo("7", two.Route.Room)
	if s := h.browser().do("GET", "/events/7/status", ""); !strings.Contains(s.body, `"room":"`+two.Route.Room+`"`) {
		t.Errorf("got %s", s.body)
	}
	if s := h.browser().do("GET", "/_ropeline/events/7/status", ""); !strings.Contains(s.body, `"room":"7"`) {
		t.Errorf("got %s", s.body)
	}
	core.leadsTo("7", "a-room-that-is-gone")
	if s := h.browser().do("GET", "/events/7/status", ""); !strings.Contains(s.body, `"room":"7"`) {
		t.Errorf("got %s", s.body)
	}
}

func TestCoreQueue_WrongAddressesAndMethods(t *testing.T) {
	core, plain := newShowCore(), roomOn("plain.test")
	rm := coreRoom(hall)
	rm.CORSOrigins = []string{"https://shop.test"}
	h := newHouse(t, houseConfig{rooms: []Room{rm, plain}, core: core})
	h.crowded()
	b := h.browser()
	b.do("POST", "/events/404/queue", "{}").problem(404, "room-unknown")
	b.do("GET", "/v1/events/404/status", "").problem(404, "room-unknown")
	at := "/events/" + h.room()
	b.do("GET", at+"/queue/rp1.x", "").problem(404, "place-unknown")
	b.do("GET", at+"/queue/me", "").problem(404, "no-place")
	if r := b.do("PUT", at+"/queue", ""); r.Header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("Allow %q", r.Header.Get("Allow"))
	} else {
		r.problem(405, "method-not-allowed")
	}
	b.do("GET", at+"/queue/a/b", "").problem(404, "not-found")
	b.do("POST", at+"/queue", "{}", "Origin: https://evil.test", "Sec-Fetch-Site: cross-site").problem(403, "cross-origin")
	if r := b.do("OPTIONS", "/v1"+at+"/queue", "", "Origin: https://shop.test").want(204); r.Header.Get("Access-Control-Allow-Origin") != "https://shop.test" {
		t.Errorf("preflight %v", r.Header)
	}
	// Other spellings are no address of ours, and gated.
	for _, target := range []string{
		"/Events/1/queue", "/events//queue", "/events/1/queue/", "/events/1/queue/a/b/c", "/events/1/%71ueue", "/events/1/queue/..", "/events/../queue", "/events/1/queue;x",
		"/v1/v1/events/1/queue", "/V1/events/1/queue", "/events/1/status/x", "/event/1/queue", "/showtimes/1/queue", "/x/events/1/queue",
	} {
		b.do("GET", target, "").problem(403, "not-admitted")
	}
	// So is every one of them before another site.
	b.host = "plain.test"
	b.do("GET", "/events/"+plain.Route.Room+"/status", "").problem(403, "not-admitted")
	b.host = "nowhere.test"
	b.do("GET", "/events/"+plain.Route.Room+"/status", "").seen()
	if core.asked.Load() != 0 {
		t.Errorf("%d requests reached the core", core.asked.Load())
	}
}
