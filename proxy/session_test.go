package proxy

import (
	"net/http"
	"testing"
)

func TestCookies_NamesAndAttributes(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, proxies: loopback})
	plain, secure := h.browser(), h.browser()
	secure.header.Set("X-Forwarded-Proto", "https")
	for _, c := range []struct {
		b      *browser
		access string
		tls    bool
	}{{plain, "ropeline_" + h.room(), false}, {secure, "__Host-ropeline_" + h.room(), true}} {
		r := c.b.join()
		r.place(201)
		access, place := r.cookie(c.access), r.cookie("ropeline_place_"+h.room())
		if access == nil || place == nil || len(r.Cookies()) != 2 {
			t.Fatalf("cookies %v", r.Cookies())
		}
		if access.Path != "/" || !access.HttpOnly || access.SameSite != http.SameSiteLaxMode || access.Secure != c.tls || access.Domain != "" ||
			access.MaxAge < 9*60 || access.MaxAge > 10*60 {
			t.Errorf("access cookie %v", access)
		}
		if place.Path != "/_ropeline/" || !place.HttpOnly || place.SameSite != http.SameSiteLaxMode || place.Secure != c.tls || place.MaxAge != 24*60*60 {
			t.Errorf("place cookie %v", place)
		}
		c.b.do("GET", "/", "").seen()
		gone := c.b.do("DELETE", c.b.api("/queue/me"), "").want(204)
		if got := gone.cookie(c.access); got == nil || got.MaxAge >= 0 || got.Path != "/" || got.Secure != c.tls {
			t.Errorf("taken back as %v", gone.Cookies())
		}
	}
}

func TestCookies_SchemeIsBelievedOnlyFromTrustedProxies(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	r := h.browser().join("X-Forwarded-Proto: https")
	r.place(201)
	if r.cookie("ropeline_"+h.room()) == nil {
		t.Errorf("cookies %v, want the plain one", r.Cookies())
	}
}

func TestSessions_OneTokenForEachRoom(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall), roomOn("other.test")}})
	tok := h.browser().enter().AccessToken
	b := h.browser()
	b.host = "other.test"
	b.do("GET", "/", "", "X-Queue-Token: "+tok).problem(403, "not-admitted")
	b.do("GET", "/", "", "Cookie: ropeline_"+h.cfg.rooms[1].Route.Room+"="+tok).problem(403, "not-admitted")
}

func TestSessions_WatchEndsWithTheRequestOrTheSession(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	rm := h.edge.site.Load().byID[h.room()]
	a := h.browser().enter()
	claims, err := h.tokens.Verify(h.room(), a.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := rm.watch(t.Context(), claims.ID)
	stop()
	select {
	case <-ended:
		t.Error("told of an end that did not come")
	default:
	}
	ended, stop = rm.watch(t.Context(), claims.ID)
	defer stop()
	h.browser().do("DELETE", "/_ropeline/events/"+h.room()+"/queue/"+a.QueueID, "").want(204)
	<-ended
}
