package crowd

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestHTTPClient_SendsTargetsByteForByte(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	defer server.Close()
	origin, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newHTTPClient(origin, Config{Connections: 1, Timeout: time.Minute})
	defer c.close()
	for _, target := range append(spellings("/events/spring/"), "/events/spring/?a=%2f&b=1;2", "/") {
		got = ""
		if _, err := c.do(t.Context(), request{method: http.MethodGet, target: target, header: http.Header{}}); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		if got != target {
			t.Errorf("sent %q, want %q", got, target)
		}
	}
}

func TestSpellings_AreOddAndDifferent(t *testing.T) {
	seen := map[string]bool{"/events/spring/": true}
	for _, s := range spellings("/events/spring/") {
		if seen[s] || strings.Contains(s, "?") || !strings.HasPrefix(s, "/") {
			t.Errorf("spelling %q is plain, repeated, has a query or no slash", s)
		}
		seen[s] = true
	}
}

func TestRefused(t *testing.T) {
	edge := http.Header{"X-Ropeline-State": {"queue"}}
	for _, c := range []struct {
		status int
		header http.Header
		want   bool
	}{
		{200, edge, true}, {303, edge, true}, {403, edge, true}, {502, edge, true}, {400, nil, true}, {404, nil, true},
		{200, nil, false}, {101, nil, false}, {302, nil, false}, {500, nil, false},
	} {
		if got := refused(answer{status: c.status, header: c.header}); got != c.want {
			t.Errorf("%d %v: got %v, want %v", c.status, c.header, got, c.want)
		}
	}
}

func TestJar(t *testing.T) {
	var j jar
	set := func(lines ...string) { j.take(http.Header{"Set-Cookie": lines}) }
	set("ropeline_place_x=p; Path=/_ropeline/; HttpOnly", "__Host-ropeline_x=a; Path=/; Secure", "site=1")
	for path, want := range map[string]string{
		"/show/":                       "__Host-ropeline_x=a; site=1",
		"/_ropeline/events/x/queue/me": "ropeline_place_x=p; __Host-ropeline_x=a; site=1",
		"/_ropelines":                  "__Host-ropeline_x=a; site=1",
	} {
		if got := j.header(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	set("__Host-ropeline_x=b; Path=/", "site=; Max-Age=0")
	if got := j.get("ropeline_x"); got != "b" {
		t.Errorf("access cookie = %q, want b", got)
	}
	if got := j.get("site"); got != "" {
		t.Errorf("deleted cookie = %q", got)
	}
}

func TestReadClaims_RefusesWhatIsNoToken(t *testing.T) {
	for _, token := range []string{"", "a.b", "a.!.c", "a.e30.c", "a.bm8.c"} {
		if _, err := readClaims(token); err == nil {
			t.Errorf("%q was read", token)
		}
	}
}

func TestRetryPause_HonoursRetryAfter(t *testing.T) {
	rng := newSource(1, 1)
	for range 100 {
		told := retryPause(answer{header: http.Header{"Retry-After": {"5"}}}, 1, rng)
		if told < 5*time.Second || told > 6*time.Second {
			t.Fatalf("told 5 s, waits %v", told)
		}
		if own := retryPause(answer{}, 99, rng); own > 12*time.Second || own < 4*time.Second {
			t.Fatalf("99th try waits %v", own)
		}
	}
}
