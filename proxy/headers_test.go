package proxy

import (
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCleanRequest_NoSpellingOfOurNamesPasses(t *testing.T) {
	names := []string{visitorHeader, roomHeader, placeHeader, sessionHeader, "X-Ropeline-State", tokenHeader, "X-Real-IP", "X-Original-URL",
		"X-Rewrite-URL", "X-Forwarded-Prefix", "X-Forwarded-For", "X-Forwarded-Anything", "Forwarded", "X-Forwarded"}
	rapid.Check(t, func(t *rapid.T) {
		name := []byte(rapid.SampledFrom(names).Draw(t, "name"))
		for i, c := range name {
			switch {
			case c == '-':
				name[i] = rapid.SampledFrom([]byte("-_.~!")).Draw(t, "dash")
			case rapid.Bool().Draw(t, "upper"):
				name[i] = strings.ToUpper(string(c))[0]
			default:
				name[i] = strings.ToLower(string(c))[0]
			}
		}
		h := http.Header{}
		if rapid.Bool().Draw(t, "canonical") {
			h.Set(string(name), "evil")
		} else {
			h[string(name)] = []string{"evil", "evil"}
		}
		h.Set("X-Forwarder", "kept")
		h.Set("X-Ropelines", "kept")
		cleanRequest(h, false)
		if len(h) != 2 {
			t.Fatalf("%s passed: %v", name, h)
		}
	})
}

func TestCleanRequest_KeepsATrustedProxysPlainForwardingHeaders(t *testing.T) {
	h := http.Header{"X-Real-Ip": {"1.2.3.4"}, "X_real_ip": {"evil"}, "X_forwarded_for": {"evil"}, "X-Ropeline-Visitor": {"evil"}, "X-Queue-Token": {"t"}, "Expect": {"100-continue"}}
	cleanRequest(h, true)
	if len(h) != 1 || h.Get("X-Real-Ip") != "1.2.3.4" {
		t.Errorf("got %v, want X-Real-Ip alone", h)
	}
}

func TestCleanCookies_TakesOursAndNotOneByteMore(t *testing.T) {
	for in, want := range map[string]string{
		"a=1; b=2":                             "a=1; b=2",
		"ropeline_tour=x":                      "",
		"ropeline_tour=x; a=1":                 "a=1",
		"a=1; ropeline_tour=x":                 "a=1",
		"a=1;ropeline_tour=x;  b=\"2;\" ;c":    "a=1;  b=\"2;\" ;c",
		"__Host-ropeline_tour=x; a=1":          "a=1",
		"__host-ROPELINE_tour=x; a=1":          "a=1",
		" \tropeline_tour =x; a=1":             "a=1",
		"ropeline_place_tour=x; ropeline_x=y;": "",
		"a=ropeline_tour=x; xropeline_a=1":     "a=ropeline_tour=x; xropeline_a=1",
		"ropeline=1; ropelines_=2; __Host-a=3": "ropeline=1; ropelines_=2; __Host-a=3",
		"a=%20+\xff; ; =; b":                   "a=%20+\xff; ; =; b",
	} {
		h := http.Header{"Cookie": {in}}
		cleanCookies(h)
		got := strings.Join(h["Cookie"], "|")
		if want == "" {
			got = strings.Trim(got, "; ")
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	h := http.Header{"Cookie": {"ropeline_a=1", "b=2", "ropeline_c=3"}}
	if cleanCookies(h); len(h["Cookie"]) != 1 || h.Get("Cookie") != "b=2" {
		t.Errorf("several lines: got %q", h["Cookie"])
	}
}
