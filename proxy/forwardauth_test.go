package proxy

import (
	"net/url"
	"strings"
	"testing"
)

// authRooms: one room on a path of hall, and public paths in it.
func authHouse(t *testing.T, trusted bool) *house {
	rm := roomOn(hall)
	rm.Paths = []string{"/tour/"}
	rm.PublicPaths = []string{"/tour/poster.jpg"}
	cfg := houseConfig{rooms: []Room{rm}}
	if trusted {
		cfg.proxies = loopback
	}
	return newHouse(t, cfg)
}

const authPath = "/_ropeline/auth"

func TestAuth_AnswersNginxAndTraefik(t *testing.T) {
	h := authHouse(t, true)
	in := h.browser()
	a := in.enter()
	for style, ask := range map[string]func(uri string, headers ...string) *reply{
		"nginx": func(uri string, headers ...string) *reply {
			return h.browser().do("GET", authPath, "", append(headers, "X-Original-URI: "+uri, "X-Original-Method: POST", "X-Forwarded-For: 203.0.113.9")...)
		},
		"traefik": func(uri string, headers ...string) *reply {
			b := h.browser()
			b.host = "127.0.0.1"
			return b.do("GET", authPath, "", append(headers, "X-Forwarded-Uri: "+uri, "X-Forwarded-Host: "+hall, "X-Forwarded-Method: GET", "X-Forwarded-Proto: https")...)
		},
	} {
		t.Run(style, func(t *testing.T) {
			got := ask("/tour/seats?x=%2F", "X-Queue-Token: "+a.AccessToken).want(204)
			claims, _ := h.tokens.Verify(h.room(), a.AccessToken)
			if got.Header.Get("X-Ropeline-Visitor") != claims.Visitor || got.Header.Get("X-Ropeline-Room") != h.room() || got.Header.Get("X-Ropeline-Place") != "1" || got.Header.Get("X-Ropeline-Session") != claims.ID {
				t.Errorf("headers %v", got.Header)
			}
			if got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("may be cached: %v", got.Header)
			}
			ask("/tour/seats", "Cookie: "+accessCookie(h.room())+"="+a.AccessToken).want(204)
			for _, uri := range []string{"/tour/seats", "/tour", "/TOUR/x", "/t%6fur/"} {
				r := ask(uri).want(401)
				if r.Header.Get("X-Ropeline-Visitor") != "" {
					t.Errorf("%s: headers %v", uri, r.Header)
				}
				ask(uri, "X-Queue-Token: "+a.QueueID).want(401)
			}
			for _, uri := range []string{"/", "/elsewhere", "/tour/poster.jpg", "/tour/poster.jpg?x", "/tourist"} {
				if r := ask(uri, "X-Queue-Token: x").want(204); r.Header.Get("X-Ropeline-Visitor") != "" {
					t.Errorf("%s: headers %v", uri, r.Header)
				}
			}
			for _, uri := range []string{"/x/../tour/", "/tour%2fseats", "//tour/", "http://hall.test/tour/", "", "tour", "*", "/tour/poster.jpg%7f"} {
				ask(uri, "X-Queue-Token: "+a.AccessToken).want(403)
			}
		})
	}
	if h.site.asked.Load() != 0 {
		t.Error("a question reached the site")
	}
}

func TestAuth_OnlyTrustedProxiesMayAsk(t *testing.T) {
	h := authHouse(t, false)
	h.browser().do("GET", authPath, "", "X-Forwarded-Uri: /", "X-Forwarded-Host: "+hall).problem(403, "bad-target")
}

func TestAuth_ClientsHeadersDoNotChangeTheQuestion(t *testing.T) {
	h := authHouse(t, true)
	b := h.browser()
	// nginx passes a client's own headers on: X-Forwarded-Uri is the client's, X-Original-URI nginx's.
	b.do("GET", authPath, "", "X-Original-URI: /tour/", "X-Forwarded-Uri: /public").want(403)
	b.do("GET", authPath, "", "X-Original-URI: /public", "X-Forwarded-Uri: /tour/").want(403)
	b.do("GET", authPath, "", "X-Forwarded-Uri: /public", "X-Forwarded-Uri: /tour/").want(403)
	b.do("GET", authPath, "", "X-Forwarded-Uri: /tour/", "X-Forwarded-Host: elsewhere.test, "+hall).want(403)
	b.do("GET", authPath, "", "X-Original-URI: /tour/", "X-Forwarded-Uri: /tour/").want(401)
}

func TestAuth_RedirectStaysOnTheHost(t *testing.T) {
	h := authHouse(t, true)
	for _, uri := range []string{"/tour/seats?a=1&b=2", "/tour/?return=//evil.test", "/tour/x#//evil.test", "/tour/%0d%0aLocation:%20http://evil.test"} {
		r := h.browser().do("GET", authPath+"?mode=redirect", "", "X-Forwarded-Uri: "+uri, "X-Forwarded-Host: "+hall)
		if r.StatusCode == 403 {
			continue // ambiguous
		}
		r.want(302)
		to, err := url.Parse(r.Header.Get("Location"))
		if err != nil || to.Host != "" || to.Scheme != "" || to.Path != "/_ropeline/rooms/"+h.room()+"/page" || to.Query().Get("return") != uri || to.Fragment != "" {
			t.Errorf("%s: sent to %q", uri, r.Header.Get("Location"))
		}
		if strings.Contains(r.Header.Get("Location"), "//") || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", uri, r.Header)
		}
	}
}

func TestAuth_NobodyIsAdmittedByAQuestion(t *testing.T) {
	h := authHouse(t, true)
	b := h.browser()
	b.open(authPath, "X-Forwarded-Uri: /tour/", "X-Forwarded-Host: "+hall).want(401)
	if n := h.scripts("join"); n != 0 {
		t.Errorf("%d Redis calls", n)
	}
	// A provisional session becomes a full one by it, and the cookie goes out.
	b.open("/tour/").seen()
	first := b.accessCookie()
	r := b.do("GET", authPath, "", "X-Forwarded-Uri: /tour/", "X-Forwarded-Host: "+hall, "Cookie: "+accessCookie(h.room())+"="+first).want(204)
	if c := r.cookie(accessCookie(h.room())); c == nil || c.Value == first {
		t.Errorf("cookies %v, want the full session's", r.Cookies())
	}
}

func TestAuth_AnswersEnvoy(t *testing.T) {
	h := authHouse(t, true)
	a := h.browser().enter()
	ask := func(method, rest string, headers ...string) *reply {
		return h.browser().do(method, authPath+rest, "", headers...)
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		got := ask(method, "/tour/seats?x=%2F", "X-Queue-Token: "+a.AccessToken, "X-Forwarded-Uri: /elsewhere").want(204)
		if got.Header.Get("X-Ropeline-Room") != h.room() {
			t.Errorf("headers %v", got.Header)
		}
		// Neither a header nor the query of a visitor changes the question or the answer.
		ask(method, "/tour/seats?mode=redirect", "X-Forwarded-Uri: /elsewhere", "X-Forwarded-Host: elsewhere.test").want(401)
		ask(method, "/tourist?x").want(204)
		for _, rest := range []string{"//tour/", "/x/../tour/", "/tour%2fx"} {
			ask(method, rest, "X-Queue-Token: "+a.AccessToken).want(403)
		}
	}
	authHouse(t, false).browser().do("GET", authPath+"/", "").problem(403, "bad-target")
}
