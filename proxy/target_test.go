package proxy

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestJudgeTarget_RefusesWhatNoSiteIsAsked(t *testing.T) {
	for _, c := range []struct {
		method, target, host, expect string
		status                       int
	}{
		{"GET", "/", "a.test", "", 0},
		{"PROPFIND", "/dav/", "a.test", "", 0},
		{"POST", "/x?y", "a.test", "100-Continue", 0},
		{"CONNECT", "internal:22", "internal:22", "", 405},
		{"CONNECT", "/", "a.test", "", 405},
		{"TRACE", "/", "a.test", "", 405},
		{"get", "/", "a.test", "", 405},
		{"BREW", "/", "a.test", "", 405},
		{"PRI", "*", "", "", 400},
		{"GET", "*", "a.test", "", 400},
		{"OPTIONS", "*", "a.test", "", 400},
		{"GET", "http://evil.test/tickets", "a.test", "", 400},
		{"GET", "//tickets/1", "a.test", "", 400},
		{"GET", "", "a.test", "", 400},
		{"GET", "/", "", "", 400},
		{"POST", "/", "a.test", "y 100-continue", 417},
		{"POST", "/", "a.test", "100-continue, 100-continue", 417},
	} {
		r := &http.Request{Method: c.method, RequestURI: c.target, Host: c.host, Header: http.Header{}}
		if c.expect != "" {
			r.Header.Set("Expect", c.expect)
		}
		_, _, problem := judgeTarget(r)
		got := 0
		if problem != nil {
			got = problem.status
		}
		if got != c.status {
			t.Errorf("%s %q Host %q Expect %q: got %d, want %d", c.method, c.target, c.host, c.expect, got, c.status)
		}
	}
}

func TestJudgeTarget_KeepsEveryByteOfPathAndQuery(t *testing.T) {
	for target, want := range map[string][2]string{
		"/a":                        {"/a", ""},
		"/a?":                       {"/a", "?"},
		"/a?a=1;token=2&b=%zz??":    {"/a", "?a=1;token=2&b=%zz??"},
		"/%41%2f;x#y?q#f":           {"/%41%2f;x#y", "?q#f"},
		"/static/?/../../tickets/1": {"/static/", "?/../../tickets/1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RequestURI = target
		path, query, problem := judgeTarget(r)
		if problem != nil || path != want[0] || query != want[1] {
			t.Errorf("%s: got %q %q %v, want %q", target, path, query, problem, want)
		}
	}
}

func TestJudgeTarget_BringsHostToOneSpelling(t *testing.T) {
	for _, c := range []struct {
		host string
		tls  bool
		want string // "": refused
	}{
		{"A.TEST.:80", false, "a.test"},
		{"a.test:443", true, "a.test"},
		{"a.test:443", false, "a.test:443"},
		{"a.test:80", true, "a.test:80"},
		{"a.test:", false, "a.test"},
		{"127.0.0.1:8080", false, "127.0.0.1:8080"},
		{"[::1]:8080", false, "[::1]:8080"},
		{"[FE80::1]", false, "[fe80::1]"},
		{"[fe80::1%25eth0]", false, ""},
		{"user@a.test", false, ""},
		{"a.test/x", false, ""},
		{"a.test b", false, ""},
		{"a.test:8a", false, ""},
		{"a.test:1:2", false, ""},
		{"a.test:123456", false, ""},
		{".a.test", false, ""},
		{"a..test", false, ""},
		{".", false, ""},
		{"tic\u212aets.test", false, ""},
		{"%61.test", false, ""},
		{"[::1]x", false, ""},
		{"[]", false, ""},
	} {
		r := &http.Request{Method: "GET", RequestURI: "/", Host: c.host, Header: http.Header{}}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		_, _, problem := judgeTarget(r)
		switch {
		case c.want == "" && problem == nil:
			t.Errorf("Host %q was taken as %q", c.host, r.Host)
		case c.want != "" && (problem != nil || r.Host != c.want):
			t.Errorf("Host %q: got %q %v, want %q", c.host, r.Host, problem, c.want)
		}
	}
}

func TestJudgeTarget_RefusesAHostFieldThatDisagrees(t *testing.T) {
	r := &http.Request{Method: "GET", RequestURI: "/", Host: "a.test", Header: http.Header{"Host": {"b.test"}}}
	if _, _, problem := judgeTarget(r); problem == nil || problem.status != 400 {
		t.Errorf("got %v, want 400", problem)
	}
	r.Header["Host"] = []string{"A.test:80"}
	if _, _, problem := judgeTarget(r); problem != nil {
		t.Errorf("same host in another spelling: got %v", problem)
	}
}
