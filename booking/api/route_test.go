package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestOwns_IsTheAPIAndNotThePagesOrTheLine(t *testing.T) {
	for path, want := range map[string]bool{
		"/openapi.json": true, "/v1/openapi.json": true, "/openapi.json/": false, "/openapi.jsonx": false,
		"/events/1": true, "/events/1/seats": true, "/events/1/layout": true, "/events/1/holds": true, "/showtimes/42/holds": true,
		"/v1/events/1": true, "/v1/events/1/holds": true, "/holds/x": true, "/holds/x/checkout": true, "/v1/holds/x": true,
		"/orders/x": true, "/bookings/x/cancel": true, "/payments/callback": true, "/payments/callback/stripe": true, "/v1/payments/callback": true,
		// the shop's pages
		"/events/1/": false, "/showtimes/1/": false, "/": false, "": false, "/events": false, "/events/": false, "/orders": false, "/holds/": false,
		// the waiting room
		"/events/1/queue": false, "/events/1/queue/x": false, "/events/1/queue/me/leave": false, "/events/1/status": false, "/events/spring-tour/queue": false,
		"/v1/events/1/queue": false, "/v1/events/spring-tour/queue": false, "/v1/events/1/status": false, "/events/spring-tour": false, "/v1/events/1/queue/": false,
		// other spellings
		"//events/1": false, "/v1//events/1": false, "/V1/events/1": false, "/v1": false, "/v1/": false, "/Events/1": false, "/events/1//holds": false,
		"/events/1/../2": false, "/events/./1": false, "/events/1/h%6Flds": false, "/v1/%2e%2e/x": false, "/events/1;a/holds": false, "/events/1/holds?x": false,
		"/holds/a%2fb": false, "/holds/..": false, `/holds/a\b`: false, "/holds/é": false, "events/1": false, "/events/1x/seats": false,
	} {
		if got := Owns(path); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}

func TestOwns_EveryRouteButThePages(t *testing.T) {
	for _, r := range routes {
		page := strings.HasSuffix(r.pattern, "/")
		for _, base := range []string{"", "/v1"} {
			path := base + strings.Replace(r.pattern, "{}", "17", 1)
			if got, want := Owns(path), base != "" || !page; got != want {
				t.Errorf("%s: got %v, want %v", path, got, want)
			}
		}
	}
}

func TestRoute_OddSpellingsAreNoOnes(t *testing.T) {
	s := newStand(t)
	for _, path := range []string{
		"/V1/events/42/seats", "//events/42/seats", "/v1//events/42/seats", "/v1/v1/events/42/seats", "/events/42/seats/", "/events/42//seats", "/events/4%32/seats",
		"/events/42/../42/seats", "/events/42/Seats", "/events/42", "/events//seats", "/", "/v1", "/v1/", "/bookings/a/b/cancel", "/payments/callback/", "/events/42/x%2fseats",
	} {
		if path == "/events/42" { // the one that is spelled well
			s.do("GET", path, "").is(200, "")
			continue
		}
		s.do("GET", path, "").is(404, "not-found").header("X-Content-Type-Options", "nosniff")
	}
	for _, path := range []string{"/v1//events/42/holds", "/events/42/holds/../seats", "/v1/events/42/holds/", "/EVENTS/42/HOLDS"} {
		s.do("POST", path, oneSeat, "X-Queue-Token", an).is(404, "not-found")
		s.do("POST", path, oneSeat).is(403, "not-admitted")
	}
	if len(s.core.holds) > 0 {
		t.Errorf("held: %v", s.core.holds)
	}
}

func TestRoute_OtherMethodsAreToldWhichThereAre(t *testing.T) {
	s := newStand(t)
	s.do("POST", "/v1/events/42/seats", "").is(405, "method-not-allowed").header("Allow", "GET, HEAD")
	s.do("PATCH", "/holds/x", "", "X-Queue-Token", an).is(405, "method-not-allowed").header("Allow", "DELETE, GET, HEAD")
	s.do("GET", "/payments/callback", "").is(405, "method-not-allowed").header("Allow", "POST")
	s.do("OPTIONS", "/orders/x/cancel", "").is(405, "method-not-allowed").header("Allow", "POST")
}

func TestRequestID_IsEchoedIfHarmless(t *testing.T) {
	s := newStand(t)
	for id, kept := range map[string]bool{"a-b_c.d:1": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "": false, "a b": false, "é": false, "<x>": false} {
		got := s.do("GET", "/nothing", "", "X-Request-Id", id).is(404, "")
		said := got.Header().Get("X-Request-Id")
		if (said == id) != kept || said == "" || got.text("requestId") != said {
			t.Errorf("%q: got %q and %q", id, said, got.text("requestId"))
		}
	}
}

func TestMetrics_CountByPatternAndStatus(t *testing.T) {
	s := newStand(t, func(c *Config) { c.Metrics = prometheus.NewRegistry() })
	s.do("GET", "/v1/events/42/seats", "")
	s.do("GET", "/events/42/seats", "")
	s.do("GET", "/nothing/here", "")
	s.do("HEAD", "/events/42/seats", "").is(200, "")
	m := s.api.metrics.requests
	if got := testutil.ToFloat64(m.WithLabelValues("/events/{}/seats", "200")); got != 3 {
		t.Errorf("got %v requests for seats, want 3", got)
	}
	if got := testutil.ToFloat64(m.WithLabelValues("", "404")); got != 1 {
		t.Errorf("got %v requests for nothing, want 1", got)
	}
	if n := testutil.CollectAndCount(m); n != 2 {
		t.Errorf("got %d series, want 2", n)
	}
}

func TestNew_WithoutASecretKeysStillWork(t *testing.T) {
	s := newStand(t, func(c *Config) { c.Secret, c.Identify = nil, nil })
	got := s.do("POST", "/events/1/holds", oneSeat).is(201, "")
	s.do("GET", "/orders/"+got.text("holdId"), "", "X-Customer-Key", got.Header().Get("X-Customer-Key")).is(200, "")
	s.do("POST", "/events/42/holds", oneSeat, "X-Queue-Token", an).is(403, "not-admitted")
	if !strings.Contains(s.log.String(), "no secret") {
		t.Errorf("no warning: %s", s.log)
	}
}

var _ http.Handler = (*API)(nil)
