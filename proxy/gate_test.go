package proxy

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/redis/go-redis/v9"

	"ropeline/admitter/token"
	"ropeline/internal/redisbox/redistest"
	"ropeline/queue"
)

// badTokens are tokens that must not open the first room of h. good is one that does.
func badTokens(t *testing.T, h *house, good string) map[string]string {
	t.Helper()
	now := h.clock.Now()
	claims := token.Claims{Room: h.room(), Visitor: "v", ID: "AAAABBBBCCCCDDDD", Number: 1, Generation: 1, Issued: now, Expires: now.Add(time.Minute)}
	sign := func(keys *token.Keys, shift time.Duration, room string) string {
		c := claims
		c.Room, c.Issued, c.Expires = room, now.Add(shift), now.Add(shift+time.Minute)
		s, err := token.New(keys, token.Config{Now: func() time.Time { return now.Add(shift) }}).Sign(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stranger, err := token.Generate("EdDSA")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"ropeline-access+jwt"}`))
	return map[string]string{
		"expired": sign(h.keys, -time.Hour, h.room()), "foreign room": sign(h.keys, 0, "another-room"), "not yet": sign(h.keys, time.Hour, h.room()),
		"alg none": none + "." + parts[1] + ".", "unknown key": sign(stranger, 0, h.room()), "wrong key": withKey(t, stranger, good),
		"cut": good[:len(good)-5], "no signature": parts[0] + "." + parts[1] + ".", "changed": parts[0] + "." + parts[1][:10] + "A" + parts[1][11:] + "." + parts[2],
		"nonsense": "x", "spaces": good[:20] + " " + good[20:],
	}
}

// withKey signs the claims of good anew, with another key under the same name.
func withKey(t *testing.T, keys *token.Keys, good string) string {
	t.Helper()
	private, err := keys.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []struct{ D string } }
	if err := json.Unmarshal(private, &set); err != nil {
		t.Fatal(err)
	}
	seed, err := base64.RawURLEncoding.DecodeString(set.Keys[0].D)
	if err != nil {
		t.Fatal(err)
	}
	parsed, _, err := jwt.NewParser().ParseUnverified(good, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	made := jwt.NewWithClaims(jwt.SigningMethodEdDSA, parsed.Claims)
	made.Header = parsed.Header
	signed, err := made.SignedString(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestGate_BadTokensAreRefused(t *testing.T) {
	for _, alg := range []string{"EdDSA", "HS256"} {
		t.Run(alg, func(t *testing.T) {
			h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, alg: alg})
			good := h.browser().enter().AccessToken
			place := h.browser().join().place(201).QueueID
			h.crowded()
			bad := badTokens(t, h, good)
			bad["place token"] = place
			for name, tok := range bad {
				for _, header := range []string{"X-Queue-Token: " + tok, "Cookie: " + accessCookie(h.room()) + "=" + tok, "Cookie: __Host-" + accessCookie(h.room()) + "=" + tok} {
					b := h.browser()
					b.open("/", header).parked()
					p := b.do("GET", "/api", "", header).problem(403, "not-admitted")
					if p.Title != "Not admitted" || p.Join != "/_ropeline/events/"+h.room()+"/queue" {
						t.Errorf("%s: %+v", name, p)
					}
					if r := b.do("POST", "/buy", "seat=1", header); r.Header.Get("Location") != "" {
						t.Errorf("%s: a POST was sent elsewhere", name)
					} else {
						r.problem(403, "not-admitted")
					}
				}
			}
			if n := h.site.asked.Load(); n != 0 {
				t.Errorf("%d requests reached the site", n)
			}
			// The good one opens, also behind forged ones of the same name.
			name := accessCookie(h.room())
			h.browser().do("GET", "/", "", "Cookie: "+name+"="+bad["wrong key"]+"; other=1; "+name+"="+good).seen()
			h.browser().do("GET", "/", "", "Cookie: "+name+"=x", "Cookie: "+name+"="+good).seen()
			h.browser().do("GET", "/", "", "X-Queue-Token: "+good, "Cookie: "+strings.Repeat(name+"=x; ", 20)+"a=b").seen()
			// The server may refuse so many fields at all; what it must not do is pass them.
			many := h.browser().do("GET", "/", "", "Cookie: "+strings.Repeat("a=b;", 3500)+name+"="+good)
			if many.StatusCode < 400 {
				t.Errorf("3,501 cookies: status %d", many.StatusCode)
			}
		})
	}
}

func TestGate_WhatTheSiteSees(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	a := b.enter()
	claims, err := h.tokens.Verify(h.room(), a.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	name := accessCookie(h.room())
	s := b.do("PUT", "/seats/%41/../x;y?q=%2F&t="+"1", "seat", "X-Ropeline-Visitor: forged", "X-Ropeline-Admin: 1", "X_Ropeline_Room: forged", "X-Queue-Token: "+a.AccessToken,
		`Cookie: a="q; x";b=2 ; `+name+`=old;  c=3`).seen()
	for header, want := range map[string]string{
		"X-Ropeline-Visitor": claims.Visitor, "X-Ropeline-Room": h.room(), "X-Ropeline-Place": fmt.Sprint(a.Number), "X-Ropeline-Session": claims.ID,
		"X-Ropeline-Admin": "", "X_Ropeline_Room": "", "X-Queue-Token": "",
	} {
		if got := strings.Join(s.Header[http.CanonicalHeaderKey(header)], "|"); got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
	if s.Target != "/seats/%41/../x;y?q=%2F&t=1" || s.Method != "PUT" || s.Body != "seat" || s.Host != hall {
		t.Errorf("the site saw %+v", s)
	}
	cookies := strings.Join(s.Header["Cookie"], " | ")
	if strings.Contains(cookies, "ropeline") || !strings.Contains(cookies, `a="q; x";b=2 ;  c=3`) {
		t.Errorf("the site saw the cookies %q", cookies)
	}
}

func TestGate_ForwardedTokenVerifiesWithThePublishedKeys(t *testing.T) {
	rm := roomOn(hall)
	rm.ForwardToken = true
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	b := h.browser()
	b.enter()
	s := b.do("GET", "/", "").seen()
	keys := b.do("GET", "/_ropeline/.well-known/jwks.json", "").want(200)
	if !strings.Contains(keys.Header.Get("Cache-Control"), "public") || strings.Contains(keys.body, `"d"`) {
		t.Errorf("keys %v %s", keys.Header, keys.body)
	}
	var set struct {
		Keys []struct{ Kid, X, Crv, Kty string }
	}
	keys.json(&set)
	parsed, err := jwt.Parse(s.Header.Get("X-Queue-Token"), func(tok *jwt.Token) (any, error) {
		for _, key := range set.Keys {
			if key.Kid == tok.Header["kid"] && key.Crv == "Ed25519" && key.Kty == "OKP" {
				x, err := base64.RawURLEncoding.DecodeString(key.X)
				return ed25519.PublicKey(x), err
			}
		}
		return nil, fmt.Errorf("no key %v", tok.Header["kid"])
	}, jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithAudience(h.room()), jwt.WithIssuer("ropeline"), jwt.WithExpirationRequired())
	if err != nil || !parsed.Valid {
		t.Fatalf("the site cannot verify %q: %v", s.Header.Get("X-Queue-Token"), err)
	}
	if sub, _ := parsed.Claims.GetSubject(); sub != s.Header.Get("X-Ropeline-Visitor") {
		t.Errorf("sub %q, header %q", sub, s.Header.Get("X-Ropeline-Visitor"))
	}
}

func TestGate_WhoIsANavigation(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	html := "Accept: text/html,application/xhtml+xml"
	for _, c := range []struct {
		method  string
		headers []string
	}{
		{"GET", []string{html, "Sec-Fetch-Mode: cors"}}, {"GET", []string{html, "Sec-Fetch-Mode: no-cors"}}, {"GET", []string{html, "Sec-Fetch-Mode: same-origin"}},
		{"GET", []string{html, "Sec-Fetch-Mode: navigate", "Sec-Purpose: prefetch;prerender"}}, {"GET", []string{html, "Purpose: prefetch"}},
		{"GET", []string{html, "X-Moz: prefetch"}}, {"GET", []string{html, "X-Purpose: preview"}}, {"GET", []string{"Accept: application/json"}}, {"GET", nil},
		{"HEAD", []string{html, "Sec-Fetch-Mode: navigate"}}, {"POST", []string{html, "Sec-Fetch-Mode: navigate"}}, {"DELETE", []string{html}}, {"OPTIONS", []string{html}},
		{"GET", []string{html, "Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}},
	} {
		r := b.do(c.method, "/", "", c.headers...)
		if r.StatusCode != 403 || len(r.Cookies()) != 0 || c.method != "HEAD" && !strings.Contains(r.body, "Not admitted") || r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %v: %d %v %s", c.method, c.headers, r.StatusCode, r.Header, r.body)
		}
	}
	if n := h.scripts("join"); n != 0 || h.site.asked.Load() != 0 {
		t.Errorf("%d Redis calls, %d requests at the site, want none", n, h.site.asked.Load())
	}
	// Somebody without Sec-Fetch-Mode who wants a page.
	b.do("GET", "/", "", html).seen()
}

func TestGate_ThePageIsTheSameForEverybodyAndCostsNoRedis(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, quiet: true})
	h.crowded()
	before := h.calls.n.Load()
	first := h.browser().open("/events/1?x=<script>").parked()
	for _, headers := range [][]string{nil, {"Accept-Language: vi"}, {"X-Queue-Token: x"}, {"Cookie: a=b"}, {"X-Ropeline-Visitor: me"}} {
		if r := h.browser().open("/else", headers...).parked(); r.body != first.body {
			t.Errorf("%v: other bytes", headers)
		}
	}
	if n := h.calls.n.Load() - before; n != 0 {
		t.Errorf("%d commands to Redis, want none", n)
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	csp := first.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "'sha256-") || strings.Contains(csp, "unsafe") {
		t.Errorf("CSP %q", csp)
	}
	if first.Header.Get("ETag") != "" || len(first.Cookies()) != 0 {
		t.Errorf("headers %v", first.Header)
	}
}

func TestGate_CacheControlOfGatedAnswers(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	b.enter()
	for _, c := range []struct{ query, want string }{
		{"", "no-store"},
		{"h.Cache-Control=public,+max-age=600&h.Content-Type=text/css", "private, max-age=600"},
		{"h.Cache-Control=max-age=600,+S-MaxAge=900,+immutable&h.Content-Type=image/png", "private, max-age=600, immutable"},
		{"h.Cache-Control=public&h.Cache-Control=max-age=5&h.Content-Type=image/png", "private, max-age=5"},
		{"h.Cache-Control=public,+max-age=600&h.Content-Type=text/html", "no-store"},
		{"h.Cache-Control=public,+max-age=600&h.Content-Type=Text/HTML%3Bcharset=x", "no-store"},
		{"h.Cache-Control=s-maxage=600&h.Content-Type=image/png", "no-store"},
		{"h.Cache-Control=no-cache", "no-store"},
		{"h.Expires=Thu,+01+Jan+2099+00:00:00+GMT&h.Surrogate-Control=max-age=9&h.CDN-Cache-Control=max-age=9", "no-store"},
	} {
		r := b.do("GET", "/?"+c.query, "")
		if got := r.Header.Values("Cache-Control"); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: Cache-Control %q, want %q", c.query, got, c.want)
		}
		if r.Header.Get("Surrogate-Control")+r.Header.Get("CDN-Cache-Control") != "" {
			t.Errorf("%s: headers for shared caches are left: %v", c.query, r.Header)
		}
	}
	r := b.do("GET", "/?h.Set-Cookie=sid=1&h.Set-Cookie=ropeline_x=1&h.X-Ropeline-State=queue&h.X-Queue-Token=theirs", "")
	if len(r.Cookies()) != 1 || r.cookie("sid") == nil || r.Header.Get(stateHeader) != "" || r.Header.Get("X-Queue-Token") != "" {
		t.Errorf("the site's headers came back as %v", r.Header)
	}
}

func TestGate_FirstNavigationIsProvisional(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		b := h.browser()
		b.open("/").seen()
		first, err := h.tokens.Verify(h.room(), b.accessCookie())
		if err != nil || !first.Provisional || first.Expires.Sub(first.Issued) > h.cfg.rooms[0].Claim {
			t.Fatalf("first token %+v, %v; want a provisional one for the claim window", first, err)
		}
		cookie := "Cookie: " + accessCookie(h.room()) + "=" + b.accessCookie()
		var all sync.WaitGroup
		tokens := make([]string, 50)
		start := make(chan struct{})
		for i := range tokens {
			all.Go(func() {
				c := h.browser()
				<-start
				c.do("GET", "/asset", "", cookie).seen()
				tokens[i] = c.accessCookie()
			})
		}
		close(start)
		all.Wait()
		if n := h.scripts("renew"); n != 1 {
			t.Errorf("%d Redis calls for 50 requests, want 1", n)
		}
		for _, tok := range tokens {
			c, err := h.tokens.Verify(h.room(), tok)
			if err != nil || c.Provisional || c.ID != first.ID || !c.Expires.After(first.Expires.Add(5*time.Minute)) || tok != tokens[0] {
				t.Fatalf("second token %+v, %v; want the same full session for all", c, err)
			}
		}
		// From here on nothing is new: no cookie, no Redis.
		full := h.browser().do("GET", "/", "", "X-Queue-Token: "+tokens[0])
		if full.seen(); len(full.Cookies()) != 0 || full.Header.Get("X-Queue-Token") != "" {
			t.Errorf("a request with the newest token got another: %v", full.Header)
		}
		if n := h.scripts("renew"); n != 1 {
			t.Errorf("%d Redis calls in the end, want 1", n)
		}
	})
}

func TestGate_ProvisionalSessionsFreeTheirSlots(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, limit: 10})
	first := h.browser()
	first.open("/").seen()
	h.browser().open("/").seen()
	h.browser().open("/").parked() // 20 % of the limit
	h.eventually("two active", func() bool { return h.line().Snapshot().Active == 2 })
	h.pass(h.cfg.rooms[0].Claim + 3*time.Second)
	h.eventually("free slots", func() bool { return h.line().Snapshot().Active == 0 })
	first.do("GET", "/", "").problem(403, "not-admitted")
	h.browser().open("/").seen()
}

func TestGate_RefusedAtOnceCostsOneCallForEachSnapshot(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, limit: 5, quiet: true})
	h.browser().open("/").seen() // 20 % of 5
	h.eventually("one active", func() bool { h.refresh(); return h.line().Snapshot().Active == 1 })
	before := h.scripts("join")
	for range 20 {
		h.browser().open("/").parked()
	}
	if n := h.scripts("join") - before; n != 1 {
		t.Errorf("%d calls for 20 visitors, want 1", n)
	}
}

func TestGate_AnAmbiguousPathAdmitsNobodyAtOnce(t *testing.T) {
	one, two := roomOn(hall), roomOn(hall)
	one.Paths, one.Gate = []string{"/one/"}, true
	two.Paths, two.Gate = []string{"/two/"}, true
	h := newHouse(t, houseConfig{rooms: []Room{one, two}})
	b := h.browser()
	b.open("/one/%2e%2e/x").parked()
	if n := h.scripts("join"); n != 0 {
		t.Errorf("%d calls: slots were taken in rooms that nobody named", n)
	}
	first := b.enter()
	second := b.do("POST", "/_ropeline/events/"+two.Route.Room+"/queue", "").place(201)
	h.browser().do("GET", "/one/%2e%2e/x", "", "X-Queue-Token: "+first.AccessToken).problem(403, "not-admitted")
	h.browser().do("GET", "/one/%2e%2e/x", "", "X-Queue-Token: "+first.AccessToken, "X-Queue-Token: "+second.AccessToken).seen()
}

func TestGate_TheSiteEndsASession(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		peer := newHouse(t, houseConfig{rooms: []Room{h.cfg.rooms[0]}, peer: h})
		b := h.browser()
		tok := b.enter().AccessToken
		peer.browser().do("GET", "/", "", "X-Queue-Token: "+tok).seen()
		r := b.do("POST", "/logout?h.X-Ropeline-Session=%20End&h.Set-Cookie=sid=1", "")
		r.seen()
		for _, name := range []string{accessCookie(h.room()), placeCookie(h.room())} {
			if c := r.cookie(name); c == nil || c.MaxAge >= 0 {
				t.Errorf("cookie %s was not taken back: %v", name, r.Cookies())
			}
		}
		if r.Header.Get("X-Ropeline-Session") != "" || r.cookie("sid") == nil || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", r.Header)
		}
		h.browser().do("GET", "/", "", "X-Queue-Token: "+tok).problem(403, "not-admitted")
		peer.eventually("the other node to refuse", func() bool {
			return peer.browser().do("GET", "/", "", "X-Queue-Token: "+tok).StatusCode == 403
		})
	})
}

func TestGate_TheSiteExtendsASession(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	start := h.clock.Now()
	b.enter()
	for _, step := range []struct{ pass, want time.Duration }{
		{2 * time.Minute, 12 * time.Minute}, {6 * time.Minute, 18 * time.Minute}, {8 * time.Minute, 26 * time.Minute},
		{8 * time.Minute, 30 * time.Minute},
	} {
		h.pass(step.pass)
		r := b.do("POST", "/pay?h.X-Ropeline-Session=extend", "")
		r.seen()
		tok := r.Header.Get("X-Queue-Token")
		if c := r.cookie(accessCookie(h.room())); c == nil || c.Value != tok {
			t.Fatalf("the longer token is %q by header and %v by cookie", tok, r.Cookies())
		}
		claims, err := h.tokens.Verify(h.room(), tok)
		if got := claims.Expires.Sub(start); err != nil || got < step.want-3*time.Second || got > step.want+3*time.Second {
			t.Errorf("the session ends %v after its start (%v), want %v", got, err, step.want)
		}
	}
	h.pass(4 * time.Minute)
	if r := b.do("POST", "/pay?h.X-Ropeline-Session=extend", ""); r.Header.Get("X-Queue-Token") != "" {
		t.Error("a session that can't be longer was lengthened")
	}
	h.pass(3 * time.Minute)
	b.do("GET", "/", "").problem(403, "not-admitted")
}

func TestGate_SlidingSessionIsRenewedAtHalfLife(t *testing.T) {
	rm := roomOn(hall)
	rm.Sliding = true
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	b := h.browser()
	start := h.clock.Now()
	b.enter()
	for step, want := range []time.Duration{0, 16 * time.Minute, 22 * time.Minute, 28 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		if step > 0 {
			h.pass(6 * time.Minute)
			if step == 5 {
				h.pass(-4 * time.Minute)
			}
		}
		before := h.scripts("renew")
		cookie := "Cookie: " + accessCookie(h.room()) + "=" + b.accessCookie()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { h.browser().do("GET", "/", "", cookie).seen() })
		}
		all.Wait()
		b.do("GET", "/", "").seen()
		b.do("GET", "/", "").seen()
		calls := 1
		if step == 0 || step == 5 {
			calls = 0
		}
		if n := h.scripts("renew") - before; n != calls {
			t.Errorf("step %d: %d Redis calls, want %d", step, n, calls)
		}
		claims, err := h.tokens.Verify(h.room(), b.accessCookie())
		if got := claims.Expires.Sub(start); err != nil || step > 0 && (got < want-3*time.Second || got > want+3*time.Second) {
			t.Errorf("step %d: the session ends %v after its start (%v), want %v", step, got, err, want)
		}
	}
}

func TestGate_ATokenOutlivesTheLossOfItsSessionInRedis(t *testing.T) {
	rm := roomOn(hall)
	rm.Sliding = true
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	b := h.browser()
	b.enter()
	h.cfg.mini.Del("rope:{" + h.room() + "}:active")
	h.pass(6 * time.Minute)
	before := h.scripts("renew")
	for range 5 {
		b.do("GET", "/", "").seen()
	}
	if n := h.scripts("renew") - before; n != 1 {
		t.Errorf("%d Redis calls in the second half of a session that Redis forgot, want 1", n)
	}
}

func TestGate_UpstreamAwayKeepsTheFirstToken(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, limit: 10})
	h.site.close()
	b := h.browser()
	for range 5 {
		if r := b.open("/").want(502); !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || r.Header.Get("Retry-After") == "" {
			t.Errorf("headers %v", r.Header)
		}
	}
	h.eventually("one active", func() bool { return h.line().Snapshot().Active == 1 })
}

// eventStreamOf opens an event stream and returns how long it lasted.
func eventStreamOf(t *testing.T, h *house, tok string, headers ...string) (opened, ended chan time.Time) {
	t.Helper()
	opened, ended = make(chan time.Time, 1), make(chan time.Time, 1)
	r, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = hall
	r.Header.Set("X-Queue-Token", tok)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	res, err := h.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get(stateHeader) != "" {
		t.Fatalf("event stream: %d %v", res.StatusCode, res.Header)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	go func() {
		in := bufio.NewReader(res.Body)
		_, _ = in.ReadString('\n')
		opened <- time.Now()
		_, _ = io.Copy(io.Discard, in)
		ended <- time.Now()
	}()
	<-opened
	return opened, ended
}

func within(t *testing.T, what string, c <-chan time.Time, limit time.Duration) time.Time {
	t.Helper()
	select {
	case at := <-c:
		return at
	case <-time.After(limit):
		t.Fatalf("%s: not within %v", what, limit)
		return time.Time{}
	}
}

func TestGate_StreamsEndWithTheSession(t *testing.T) {
	t.Parallel()
	rm := roomOn(hall)
	rm.Session, rm.SessionMax = 4*time.Second, 8*time.Second
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	for _, headers := range [][]string{{"Accept: text/event-stream"}, nil} {
		a := h.browser().enter()
		expires, _ := time.Parse(time.RFC3339, a.ExpiresAt)
		_, ended := eventStreamOf(t, h, a.AccessToken, headers...)
		if at := within(t, "end of session", ended, 20*time.Second); at.Before(expires.Add(-time.Second)) {
			t.Errorf("%v: ended at %v, before the session did at %v", headers, at, expires)
		}
	}
	// A session that ends early ends them at once.
	b := h.browser()
	a := b.enter()
	_, ended := eventStreamOf(t, h, a.AccessToken)
	b.do("DELETE", b.api("/queue/me"), "").want(204)
	within(t, "DELETE", ended, 2*time.Second)
	// A lengthened one lengthens them.
	b = h.browser()
	a = b.enter()
	expires, _ := time.Parse(time.RFC3339, a.ExpiresAt)
	_, ended = eventStreamOf(t, h, a.AccessToken)
	h.eventually("two seconds", func() bool { return h.clock.Now().After(expires.Add(-2 * time.Second)) })
	longer := b.do("POST", "/pay?h.X-Ropeline-Session=extend", "")
	claims, err := h.tokens.Verify(h.room(), longer.Header.Get("X-Queue-Token"))
	if err != nil || !claims.Expires.After(expires) {
		t.Fatalf("not lengthened: %+v, %v", claims, err)
	}
	if at := within(t, "end of the longer session", ended, 20*time.Second); at.Before(claims.Expires.Add(-time.Second)) {
		t.Errorf("ended at %v, want not before %v", at, claims.Expires)
	}
}

func TestGate_SocketsNeedATokenAndEndWithTheSession(t *testing.T) {
	t.Parallel()
	rm := roomOn(hall)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})}
	go func() { _ = server.Serve(echo) }()
	t.Cleanup(func() { _ = server.Close() })
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	rooms := h.cfg.rooms
	rooms[0].Upstream = target(h.site.url, "", "")
	rooms[0].Upstream.Opaque, rooms[0].Upstream.Host = "", echo.Addr().String()
	if err := h.edge.SetSite(rooms, h.site.url); err != nil {
		t.Fatal(err)
	}
	ask := func(tok string) (net.Conn, *bufio.Reader, string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Queue-Token: %s\r\n\r\n", hall, tok)
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return conn, in, line
	}
	if _, _, line := ask("x"); !strings.Contains(line, "403") {
		t.Errorf("without a token: %q", line)
	}
	b := h.browser()
	conn, in, line := ask(b.enter().AccessToken)
	if !strings.Contains(line, "101") {
		t.Fatalf("with a token: %q", line)
	}
	for line != "\r\n" {
		line, _ = in.ReadString('\n')
	}
	_, _ = io.WriteString(conn, "hello\n")
	if got, err := in.ReadString('\n'); got != "hello\n" {
		t.Fatalf("echo: %q, %v", got, err)
	}
	b.do("DELETE", b.api("/queue/me"), "").want(204)
	if rest, err := io.ReadAll(in); len(rest) != 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("after the session's end: %q, %v", rest, err)
	}
}

func TestGate_OnOutageOpen(t *testing.T) {
	server := redistest.Private(t)
	rdb := server.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	rm := roomOn(hall)
	rm.OutageOpen = true
	h := newHouse(t, houseConfig{rooms: []Room{rm}, rdb: rdb, stale: 1500 * time.Millisecond})
	h.crowded()
	waiting := h.browser()
	waiting.join().want(201)
	server.Kill()
	h.eventually("the edge to notice", h.line().Away)
	b := h.browser()
	b.open("/").seen()
	claims, err := h.tokens.Verify(h.room(), b.accessCookie())
	if err != nil || !claims.Outage {
		t.Fatalf("token %+v, %v; want a marked one", claims, err)
	}
	h.browser().do("GET", "/", "").problem(403, "not-admitted") // still no admission by anything but a visitor's page
	// Whoever stands in line is not worse off than a newcomer.
	if got := waiting.poll("me").place(200); got.State != "admitted" || got.AccessToken == "" {
		t.Errorf("a poll while everybody is let in: %+v", got)
	}
	waiting.do("GET", "/", "").seen()
	client := h.browser()
	if got := client.join().place(201); got.State != "admitted" || got.QueueID != "" {
		t.Errorf("a join while everybody is let in: %+v", got)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.eventually("Redis to be back", func() bool { return !h.line().Away() })
	h.eventually("a leader", func() bool { return h.browser().open("/").Header.Get(stateHeader) == "queue" })
	b.do("GET", "/", "").seen() // what was given out stays good
}

func TestGate_OnOutageOpenKeepsAClosedRoomClosed(t *testing.T) {
	server := redistest.Private(t)
	rdb := server.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	rm := roomOn(hall)
	rm.OutageOpen = true
	h := newHouse(t, houseConfig{rooms: []Room{rm}, rdb: rdb, stale: 1500 * time.Millisecond})
	served := h.edge.site.Load().byID[h.room()]
	if h.edge.outage(served, "") == nil {
		t.Fatal("nobody would get into an open room")
	}
	for name, change := range map[string]func(*queue.Settings){
		"before the opening": func(s *queue.Settings) { s.OpensAt = time.Now().Add(time.Hour) },
		"paused":             func(s *queue.Settings) { s.Mode = queue.Paused },
		"closed":             func(s *queue.Settings) { s.Mode = queue.Closed },
		"full":               func(s *queue.Settings) { s.Mode = queue.Full },
		"rate 0":             func(s *queue.Settings) { s.Rate = 0 },
	} {
		h.set(func(s *queue.Settings) { s.Mode, s.Rate, s.OpensAt = queue.Open, 1e5, time.Time{}; change(s) })
		if h.edge.outage(served, "") != nil {
			t.Errorf("%s: somebody would get in", name)
		}
	}
	server.Pause()
	defer server.Resume()
	h.eventually("the edge to notice", h.line().Away)
	h.browser().open("/").parked()
	h.browser().join().problem(503, "redis-away")
}

func TestGate_ASlowRedisDoesNotSlowAdmittedVisitors(t *testing.T) {
	server := redistest.Private(t)
	rdb := server.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	rm := roomOn(hall)
	rm.Sliding, rm.Session = true, 20*time.Minute
	h := newHouse(t, houseConfig{rooms: []Room{rm}, rdb: rdb, stale: 1500 * time.Millisecond})
	b := h.browser()
	b.open("/").seen() // provisional: every request would make it a full one
	server.Pause()
	defer server.Resume()
	h.eventually("the edge to notice", h.line().Away)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	for range 20 {
		b.do("GET", "/", "").seen()
	}
	if took := time.Since(began); took > 5*time.Second || ctx.Err() != nil {
		t.Errorf("20 requests took %v", took)
	}
}

func TestGate_ExtendingAFreshSessionCostsNoRedisCall(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	b.enter()
	b.open("/").seen()
	before := h.scripts("renew")
	for range 5 {
		if r := b.do("POST", "/pay?h.X-Ropeline-Session=extend", ""); r.Header.Get("X-Queue-Token") != "" {
			t.Error("a session with all its time left was lengthened")
		}
	}
	if after := h.scripts("renew"); after != before {
		t.Errorf("%d calls for it, want none", after-before)
	}
}

func TestRefuse_PeopleWhoSendAFormGetAPage(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.set(func(s *queue.Settings) { s.Mode = queue.Closed })
	h.eventually("the room to be closed", func() bool {
		s := h.line().Snapshot()
		return s != nil && s.Mode == queue.Closed
	})
	b := h.browser()
	const form = "Content-Type: application/x-www-form-urlencoded"
	r := b.do("POST", b.api("/queue"), "", form, "Sec-Fetch-Mode: navigate", "Accept: text/html")
	if r.StatusCode != 409 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		t.Errorf("a form into a closed room: %d %s, want a page", r.StatusCode, r.Header.Get("Content-Type"))
	}
	b.do("POST", b.api("/queue"), "{}", "Content-Type: application/json", "Sec-Fetch-Mode: cors").problem(409, "room-closed")
	b.do("POST", "/buy", "seat=1", form, "Sec-Fetch-Mode: navigate", "Accept: text/html").problem(403, "not-admitted")
}
