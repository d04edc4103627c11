package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
	"ropeline/queue"
)

func TestJoin_WaitingAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		h.crowded()
		h.browser().join().want(201)
		b := h.browser()
		r := b.join()
		a := r.place(201)
		if a.State != "waiting" || a.Number != 2 || a.Ahead == nil || *a.Ahead != 1 || a.AccessToken != "" || a.ExpiresAt != "" {
			t.Errorf("second join: %s, want number 2 with 1 ahead and no access token", r.body)
		}
		if !strings.HasPrefix(a.QueueID, "rp1.") || a.ETA == nil || a.ETA.Low > a.ETA.High || a.ETA.High == 0 {
			t.Errorf("second join: %s, want a place token and a range of seconds", r.body)
		}
		if seconds, _ := strconv.Atoi(r.Header.Get("Retry-After")); a.PollAfter < 1000 || int64(seconds)*1000 < a.PollAfter || int64(seconds)*1000 > a.PollAfter+1000 {
			t.Errorf("pollAfterMs %d, Retry-After %q", a.PollAfter, r.Header.Get("Retry-After"))
		}
		if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get(stateHeader) == "" {
			t.Errorf("headers %v", r.Header)
		}
		h.eventually("the snapshot to count both", func() bool { return h.line().Snapshot().Waiting == 2 })
		for _, id := range []string{a.QueueID, "me"} {
			got := b.poll(id)
			p := got.place(200)
			if p.State != "waiting" || p.Number != 2 || p.Ahead == nil || *p.Ahead != 1 || p.QueueID != a.QueueID || got.Header.Get("Retry-After") == "" {
				t.Errorf("poll %s: %s", id, got.body)
			}
		}
	})
}

func TestJoin_AgainIsTheSamePlace(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		h.crowded()
		b := h.browser()
		first := b.join().place(201)
		for range 3 { // F5
			if again := b.join().place(201); again.Number != first.Number || again.QueueID != first.QueueID {
				t.Fatalf("joined again: %+v, want %+v", again, first)
			}
		}
		other := h.browser() // no cookie, only the queueId
		if again := other.do("POST", b.api("/queue"), `{"queueId":"`+first.QueueID+`"}`).place(201); again.Number != first.Number {
			t.Errorf("joined with queueId: %+v, want %+v", again, first)
		}
		if next := h.browser().join().place(201); next.Number != first.Number+1 {
			t.Errorf("the next newcomer has number %d, want %d", next.Number, first.Number+1)
		}
	})
}

func TestJoin_ManyFromOneAddress(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		h.crowded()
		const visitors = 400
		numbers := make([]int64, visitors)
		var all sync.WaitGroup
		gate := make(chan struct{}, 64)
		for i := range visitors {
			all.Go(func() {
				gate <- struct{}{}
				defer func() { <-gate }()
				numbers[i] = h.browser().join().place(201).Number
			})
		}
		all.Wait()
		given := map[int64]bool{}
		for _, n := range numbers {
			given[n] = true
		}
		if len(given) != visitors || !given[1] || !given[visitors] {
			t.Errorf("%d different numbers for %d visitors", len(given), visitors)
		}
	})
}

func TestJoin_AdmittedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		b := h.browser()
		r := b.join()
		a := r.place(201)
		expires, err := time.Parse(time.RFC3339, a.ExpiresAt)
		if a.State != "admitted" || a.AccessToken == "" || err != nil || a.Ahead != nil || a.PollAfter != 0 {
			t.Fatalf("join: %s", r.body)
		}
		if left := expires.Sub(h.clock.Now()); left < 9*time.Minute || left > 10*time.Minute {
			t.Errorf("expires in %v, want the session of 10 minutes", left)
		}
		if r.cookie(accessCookie(h.room())) == nil || r.cookie(placeCookie(h.room())) == nil {
			t.Errorf("cookies %v, want both", r.Cookies())
		}
		if s := b.do("GET", "/buy", "").seen(); s.Header.Get("X-Ropeline-Place") != strconv.FormatInt(a.Number, 10) {
			t.Errorf("the site saw place %q, want %d", s.Header.Get("X-Ropeline-Place"), a.Number)
		}
		h.eventually("the snapshot to pass the place", func() bool { return h.line().Snapshot().Serving&(1<<28-1) >= a.Number })
		for _, again := range []placeAnswer{b.join().place(201), b.poll("me").place(200), b.poll(a.QueueID).place(200)} {
			if again.AccessToken != a.AccessToken || again.ExpiresAt != a.ExpiresAt || again.State != "admitted" {
				t.Errorf("asked again: %+v, want the same token", again)
			}
		}
	})
}

func TestPoll_AdmissionHandsOutOneToken(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		peer := newHouse(t, houseConfig{rooms: []Room{h.cfg.rooms[0]}, peer: h})
		h.crowded()
		b := h.browser()
		id := b.join().place(201).QueueID
		b.poll(id).place(200)
		h.roomy()
		var first placeAnswer
		h.eventually("the turn", func() bool { first = b.poll("me").place(200); return first.State == "admitted" })
		if c := b.cookies[accessCookie(h.room())]; c == nil || c.Value != first.AccessToken {
			t.Error("the admitted answer set no access cookie")
		}
		for range 3 {
			if got := b.poll(id).place(200); got.AccessToken != first.AccessToken {
				t.Error("another token on a repeated poll")
			}
		}
		there := peer.browser()
		var got placeAnswer
		peer.eventually("the other node", func() bool { got = there.poll(id).place(200); return got.State == "admitted" })
		if got.AccessToken != first.AccessToken {
			t.Error("another token from another node")
		}
		there.do("GET", "/", "", "X-Queue-Token: "+got.AccessToken).seen()
	})
}

func TestLeave_TheLine(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	a, b := h.browser(), h.browser()
	first, second := a.join().place(201), b.join().place(201)
	r := a.do("DELETE", a.api("/queue/me"), "").want(204)
	if c := r.cookie(placeCookie(h.room())); c == nil || c.MaxAge >= 0 || c.Path != "/_ropeline/" {
		t.Errorf("the place cookie was not taken back: %v", r.Cookies())
	}
	if got := a.poll(first.QueueID).place(200); got.State != "expired" {
		t.Errorf("after leaving: %+v, want expired", got)
	}
	a.poll("me").problem(404, "no-place")
	if got := b.poll("me").place(200); got.Number != second.Number || got.State != "waiting" {
		t.Errorf("somebody else's place: %+v", got)
	}
	a.do("DELETE", a.api("/queue/"+first.QueueID), "").want(204) // safe to repeat
	if got := a.do("POST", a.api("/queue"), `{"queueId":"`+first.QueueID+`"}`).place(201); got.Number <= second.Number {
		t.Errorf("joined again after leaving: number %d, want a new one behind %d", got.Number, second.Number)
	}
}

func TestLeave_TheSession(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb})
		peer := newHouse(t, houseConfig{rooms: []Room{h.cfg.rooms[0]}, peer: h})
		a, b := h.browser(), h.browser()
		mine, other := a.enter(), b.enter()
		// Ending somebody else's session by its queueId leaves the own one alone, and its cookies.
		r := a.do("DELETE", a.api("/queue/"+other.QueueID), "").want(204)
		if len(r.Cookies()) != 0 {
			t.Errorf("another's place given up took back the own cookies: %v", r.Cookies())
		}
		a.do("GET", "/", "").seen()
		b.do("GET", "/", "").problem(403, "not-admitted")
		a.do("DELETE", a.api("/queue/me"), "").want(204)
		a.do("GET", "/", "", "X-Queue-Token: "+mine.AccessToken).problem(403, "not-admitted")
		peer.eventually("the other node to refuse", func() bool {
			return peer.browser().do("GET", "/", "", "X-Queue-Token: "+mine.AccessToken).StatusCode == 403
		})
		h.eventually("free slots", func() bool { return h.line().Snapshot().Active == 0 })
		if got := a.poll(mine.QueueID).place(200); got.State != "expired" {
			t.Errorf("a poll after the end: %+v", got)
		}
		// Without cookies, by the header alone.
		c := h.browser()
		tok := c.enter().AccessToken
		h.browser().do("DELETE", a.api("/queue/me"), "", "X-Queue-Token: "+tok).want(204)
		c.do("GET", "/", "").problem(403, "not-admitted")
	})
}

func TestLeave_ByForm(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	b := h.browser()
	b.join().want(201)
	r := b.do("POST", b.api("/queue/me/leave"), "x=1", "Content-Type: application/x-www-form-urlencoded").want(303)
	if got := r.Header.Get("Location"); got != waitPath(h.room()) {
		t.Errorf("sent on to %q", got)
	}
	b.join().want(201)
	b.do("POST", b.api("/queue/me/leave"), "", "Content-Type: application/json").want(204)
	b.do("POST", b.api("/queue/me/leave"), "").problem(404, "no-place")
}

func TestPoll_ForeignPlaces(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall), roomOn("other.test")}})
	h.crowded()
	b := h.browser()
	id := b.join().place(201).QueueID
	elsewhere := h.browser()
	elsewhere.host = "other.test"
	there := elsewhere.do("POST", "/_ropeline/events/"+h.cfg.rooms[1].Route.Room+"/queue", "").place(201)
	fresh := h.browser()
	damaged := []byte(id)
	damaged[len(damaged)/2] ^= 1
	for name, bad := range map[string]string{
		"another room's": there.QueueID, "damaged": string(damaged), "cut": id[:len(id)-3], "access token": there.AccessToken,
		"nonsense": "x", "more": id + "A", "escaped": strings.ReplaceAll(id, ".", "%2e") + "%00",
	} {
		fresh.poll(bad).problem(404, "place-unknown")
		fresh.do("DELETE", fresh.api("/queue/"+bad), "").problem(404, "place-unknown")
		if !strings.Contains(bad, "%") {
			fresh.do("POST", fresh.api("/queue"), `{"queueId":"`+bad+`"}`).problem(404, "place-unknown")
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		fresh.do(method, fresh.api("/queue/me"), "").problem(404, "no-place")
	}
}

func TestJoin_Bodies(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	for body, status := range map[string]int{
		"": 201, "{}": 201, " \r\n{ }\n": 201, `{"queueId":null}`: 201, `{"queueId":""}`: 201, `{"more":[1,{}]}`: 201,
		"null": 400, "[]": 400, `"x"`: 400, "1": 400, "true": 400, "{": 400, `{}{}`: 400, `{"queueId":5}`: 400, `{"queueId":{}}`: 400, "\x00": 400,
		"\xef\xbb\xbf{}": 400, strings.Repeat(" ", 4096): 201, strings.Repeat(" ", 4097): 413, `{"x":"` + strings.Repeat("y", 5000) + `"}`: 413,
		strings.Repeat("[", 4000): 400,
	} {
		r := h.browser().do("POST", "/_ropeline/events/"+h.room()+"/queue", body, "Content-Type: application/json")
		switch status {
		case 201:
			r.place(201)
		case 400:
			r.problem(400, "bad-request")
		case 413:
			r.problem(413, "too-large")
		}
	}
	r := h.browser().do("POST", "/_ropeline/events/"+h.room()+"/queue", "a=b", "Content-Type: application/x-www-form-urlencoded; charset=utf-8").want(303)
	if r.Header.Get("Location") != waitPath(h.room()) || r.cookie(placeCookie(h.room())) == nil {
		t.Errorf("a form's join: %v", r.Header)
	}
	h.browser().do("POST", "/_ropeline/events/"+h.room()+"/queue", strings.Repeat("a", 5000), "Content-Type: application/x-www-form-urlencoded").problem(413, "too-large")
}

func TestJoin_RefusalKeepsTheConnection(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.set(func(s *queue.Settings) { s.Mode = queue.Closed })
	// A crowd that is refused must not come back with a new connection each time.
	if r := h.browser().join(); r.Close || r.Header.Get("Connection") == "close" {
		t.Error("a refused join whose body was read closes the connection")
	}
	// A body that nobody reads and that may never come is another matter.
	if r := h.browser().do("POST", "/upload", strings.Repeat("x", 1<<20)); !r.Close {
		t.Error("an upload that was refused unread keeps the connection")
	}
}

func TestJoin_StatesOfTheRoom(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	opens := time.Now().Add(time.Hour).Truncate(time.Second)
	h.set(func(s *queue.Settings) { s.OpensAt = opens })
	b := h.browser()
	r := b.join()
	a := r.place(201)
	if a.State != "before_opening" || a.Ahead != nil || a.ETA != nil || a.OpensAt != opens.UTC().Format(time.RFC3339) || a.AccessToken != "" {
		t.Errorf("before the opening: %s", r.body)
	}
	if got := b.poll("me").place(200); got.State != "before_opening" || got.Ahead != nil {
		t.Errorf("a poll before the opening: %+v", got)
	}
	h.set(func(s *queue.Settings) { s.OpensAt, s.Mode, s.Reason = time.Time{}, queue.Paused, "Back at 11 <soon>" })
	b.poll("me").place(200)
	late := h.browser()
	if got := late.join().place(201); got.State != "paused" || got.Reason != "Back at 11 <soon>" || got.Ahead == nil || got.ETA != nil {
		t.Errorf("while paused: %+v", got)
	}
	for _, mode := range []queue.Mode{queue.Closed, queue.Full} {
		h.set(func(s *queue.Settings) { s.Mode, s.Reason = mode, "See you next year" })
		p := h.browser().join().problem(409, "room-closed")
		if p.State != string(mode) || !strings.Contains(p.Detail, "See you next year") || p.Room != h.room() {
			t.Errorf("%s: %+v", mode, p)
		}
		// Whoever stands in line keeps the place.
		if got := b.join().place(201); got.State != string(mode) || got.Number != a.Number {
			t.Errorf("a place in a room that is %s: %+v", mode, got)
		}
		if got := b.poll("me").place(200); got.State != string(mode) || got.Reason != "See you next year" {
			t.Errorf("a poll in a room that is %s: %+v", mode, got)
		}
	}
}

func TestJoin_OnePlaceForEachCustomer(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		rm := roomOn(hall)
		rm.Identity = "X-Customer"
		h := newHouse(t, houseConfig{rooms: []Room{rm}, proxies: loopback, rdb: rdb})
		h.crowded()
		phone, laptop := h.browser(), h.browser()
		first := phone.join("X-Customer: ann").place(201)
		second := laptop.join("X-Customer: ann").place(201)
		bob := h.browser()
		third := bob.join("X-Customer: bob").place(201)
		if second.Number != first.Number || third.Number != first.Number+1 {
			t.Errorf("ann has %d and %d, bob %d; want one place for each", first.Number, second.Number, third.Number)
		}
		for _, headers := range [][]string{nil, {"X-Customer: "}, {"X-Customer: ann", "X-Customer: bob"}} {
			h.browser().join(headers...).problem(403, "identity-required")
		}
		// Another customer's place is nobody else's.
		bob.do("POST", bob.api("/queue"), `{"queueId":"`+first.QueueID+`"}`, "X-Customer: bob").problem(404, "place-unknown")
		// The same browser, another customer: the cookie does not carry the place over.
		if got := phone.join("X-Customer: bob").place(201); got.Number != third.Number {
			t.Errorf("bob on ann's phone has number %d, want his own %d", got.Number, third.Number)
		}
		h.roomy()
		var in placeAnswer
		h.eventually("ann's turn", func() bool { in = laptop.poll(first.QueueID).place(200); return in.State == "admitted" })
		laptop.do("GET", "/", "", "X-Customer: ann").seen()
		for _, headers := range [][]string{{"X-Customer: bob"}, nil, {"X-Customer: ann", "X-Customer: bob"}} {
			laptop.do("GET", "/", "", headers...).problem(403, "not-admitted")
		}
		// Joining again while admitted hands out the place and the session of the same customer.
		again := laptop.join("X-Customer: ann").place(201)
		if again.AccessToken != in.AccessToken || again.Number != first.Number {
			t.Errorf("joined while admitted: %+v, want the session of before", again)
		}
		h.browser().do("GET", "/", "", "X-Customer: ann", "X-Queue-Token: "+laptop.poll(again.QueueID).place(200).AccessToken).seen()
		h.browser().do("GET", "/", "", "X-Customer: ann", "X-Queue-Token: "+laptop.poll("me").place(200).AccessToken).seen()
		// The end of the session gives the customer a new place.
		laptop.do("DELETE", laptop.api("/queue/me"), "", "X-Customer: ann").want(204)
		if got := h.browser().join("X-Customer: ann").place(201); got.Number <= third.Number {
			t.Errorf("joined after the end: number %d, want a new one", got.Number)
		}
	})
}

func TestJoin_IdentityOnlyFromTrustedProxies(t *testing.T) {
	rm := roomOn(hall)
	rm.Identity = "X-Customer"
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	h.browser().join("X-Customer: ann").problem(403, "identity-required")
	h.browser().open("/", "X-Customer: ann").parked()
}

func TestCORS_ClosedByDefault(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	for _, r := range []*reply{
		b.do("GET", b.api("/status"), "", "Origin: https://shop.test"),
		b.do("OPTIONS", b.api("/queue"), "", "Origin: https://shop.test", "Access-Control-Request-Method: POST"),
		b.do("POST", b.api("/queue"), "", "Origin: http://"+hall),
	} {
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", r.Request.Method, name)
			}
		}
	}
	for _, headers := range [][]string{
		{"Origin: https://evil.test"}, {"Sec-Fetch-Site: cross-site", "Origin: http://" + hall}, {"Sec-Fetch-Site: same-site"},
		{"Sec-Fetch-Site: cross-site", "Origin: null"},
	} {
		b.join(headers...).problem(403, "cross-origin")
		b.do("DELETE", b.api("/queue/me"), "", headers...).problem(403, "cross-origin")
		b.do("POST", b.api("/queue/me/leave"), "", headers...).problem(403, "cross-origin")
	}
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Origin: http://" + hall}, nil,
	} {
		h.browser().join(headers...).want(201)
	}
	// A form on our own page, on a site without TLS: browsers send no Sec-Fetch-Site there, and because of the page's
	// Referrer-Policy the Origin is null. SameSite=Lax keeps the cookies of such a request from another site at home.
	r := h.browser().do("POST", b.api("/queue"), "", "Origin: null", "Content-Type: application/x-www-form-urlencoded")
	r.want(303)
}

func TestCORS_OpenForConfiguredOrigins(t *testing.T) {
	rm := roomOn(hall)
	rm.CORSOrigins = []string{"https://Shop.test"}
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	h.crowded()
	b := h.browser()
	r := b.join("Origin: https://shop.test", "Sec-Fetch-Site: cross-site").want(201)
	if r.Header.Get("Access-Control-Allow-Origin") != "https://shop.test" || r.Header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("headers %v", r.Header)
	}
	pre := b.do("OPTIONS", b.api("/queue/me"), "", "Origin: https://shop.test", "Access-Control-Request-Method: DELETE", "Access-Control-Request-Headers: x-queue-token").want(204)
	if !strings.Contains(pre.Header.Get("Access-Control-Allow-Methods"), "DELETE") || !strings.Contains(pre.Header.Get("Access-Control-Allow-Headers"), "X-Queue-Token") {
		t.Errorf("preflight %v", pre.Header)
	}
	for _, origin := range []string{"https://evil.test", "http://shop.test", "https://shop.test.evil.test", "null", "https://shop.test:444"} {
		r := b.do("GET", b.api("/status"), "", "Origin: "+origin)
		if r.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(strings.Join(r.Header.Values("Vary"), ","), "Origin") {
			t.Errorf("origin %s: %v", origin, r.Header)
		}
		b.join("Origin: "+origin, "Sec-Fetch-Site: cross-site").problem(403, "cross-origin")
	}
	// A shared cache must know that the answer depends on the origin even when none was sent.
	if r := b.do("GET", b.api("/status"), ""); !strings.Contains(strings.Join(r.Header.Values("Vary"), ","), "Origin") {
		t.Errorf("no Vary: Origin: %v", r.Header)
	}
	if r := b.do("POST", b.api("/queue"), "[", "Origin: https://shop.test"); r.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Error("a refusal cannot be read by the page of an allowed origin")
	}
}

func TestAPI_PollOfSomebodyWaitingCostsNoRedis(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, quiet: true})
	h.crowded()
	b := h.browser()
	h.browser().join().want(201)
	id := b.join().place(201).QueueID
	h.eventually("the snapshot to count both", func() bool { h.refresh(); return h.line().Snapshot().Waiting == 2 })
	before := h.calls.n.Load()
	for range 20 {
		if got := b.poll(id).place(200); got.State != "waiting" {
			t.Fatalf("got %+v", got)
		}
		b.do("GET", b.api("/status"), "").want(200)
		b.open(waitPath(h.room())).want(200)
	}
	if n := h.calls.n.Load() - before; n != 0 {
		t.Errorf("%d commands to Redis, want none", n)
	}
}

func TestAPI_RedisAway(t *testing.T) {
	server := redistest.Private(t)
	rdb := server.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, rdb: rdb, stale: 1500 * time.Millisecond})
	in := h.browser()
	in.enter()
	h.crowded()
	ahead, waiting := h.browser(), h.browser()
	ahead.join().want(201)
	place := waiting.join().place(201)
	h.eventually("the snapshot to count both", func() bool { return h.line().Snapshot().Waiting == 2 })
	server.Kill()
	// At once, before anybody has noticed: fast, and never a place that is not there.
	began := time.Now()
	h.browser().join().problem(503, "redis-away")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the first join took %v", took)
	}
	h.eventually("the edge to notice", h.line().Away)
	began = time.Now()
	for range 20 {
		r := h.browser().join()
		r.problem(503, "redis-away")
		if seconds, _ := strconv.Atoi(r.Header.Get("Retry-After")); seconds < 1 {
			t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("20 joins took %v", took)
	}
	got := waiting.poll("me").place(200)
	if got.State != "holding" || got.Ahead == nil || *got.Ahead != 1 || got.Number != place.Number || got.PollAfter == 0 || got.QueueID != place.QueueID {
		t.Errorf("a poll without Redis: %+v", got)
	}
	in.do("POST", "/buy", "seat").seen()
	h.browser().open("/").parked()
	h.browser().do("GET", "/", "").problem(403, "not-admitted")
	var s statusView
	in.do("GET", in.api("/status"), "").json(&s)
	if s.State != "holding" {
		t.Errorf("status %+v, want holding", s)
	}
	waiting.do("DELETE", waiting.api("/queue/me"), "").problem(503, "redis-away") // the place stays what it was
	in.do("DELETE", in.api("/queue/me"), "").want(204)                            // the session ends here, and in Redis later
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.eventually("Redis to be back", func() bool { return !h.line().Away() })
	h.eventually("the old place", func() bool {
		r := waiting.poll("me")
		return r.StatusCode == http.StatusOK && r.place(200).State != "holding"
	})
	if got := waiting.poll("me").place(200); got.Number != place.Number {
		t.Errorf("after Redis came back empty: %+v, want the place of before", got)
	}
}

func TestPoll_WhoWaitsLongGetsAYoungerPlaceToken(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	b := h.browser()
	first := b.join().place(201)
	p, err := h.sealer.Open(h.room(), first.QueueID, h.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	p.Issued = h.clock.Now().Add(-queue.PlaceLife + time.Hour) // it came yesterday
	old := h.sealer.Seal(h.room(), p)
	b.cookies[placeCookie(h.room())].Value = old
	r := b.poll("me")
	younger := r.place(200)
	if cookie := r.cookie(placeCookie(h.room())); cookie == nil || cookie.Value != younger.QueueID || younger.QueueID == old {
		t.Fatalf("cookie %v, queueId %s, want a younger token in both", cookie, younger.QueueID)
	}
	got, err := h.sealer.Open(h.room(), younger.QueueID, h.clock.Now().Add(queue.PlaceLife/2))
	if err != nil || got.ID != p.ID || got.Number != p.Number {
		t.Errorf("the younger token is of %+v, %v; want the same place %+v", got, err, p)
	}
	if again := b.poll(younger.QueueID); again.place(200).QueueID != younger.QueueID || again.cookie(placeCookie(h.room())) != nil {
		t.Error("a young token was replaced")
	}
}
