package web

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func waitPage(t *testing.T, view WaitView) string {
	t.Helper()
	var page strings.Builder
	if err := Wait(&page, view); err != nil {
		t.Fatalf("Wait(%+v): %v", view, err)
	}
	return page.String()
}

const (
	joinForm  = `action="/_ropeline/events/spring-tour/queue"`
	leaveForm = `action="/_ropeline/events/spring-tour/queue/me/leave"`
)

func TestWait_SaysWhatThePlaceIsWorth(t *testing.T) {
	for _, test := range []struct {
		name      string
		view      WaitView
		has, lack []string
	}{
		{"waiting", WaitView{State: "waiting", Number: 20345, Ahead: 12345, ETALow: 11 * time.Minute, ETAHigh: 24 * time.Minute, Refresh: 12},
			[]string{"You are in line", "<small>about</small> 12,000", "people ahead of you", "11–24 minutes", "20,345", `http-equiv="refresh" content="12"`, leaveForm},
			[]string{joinForm, "You are next"}},
		{"one before me", WaitView{State: "waiting", Number: 2, Ahead: 1}, []string{"person ahead of you"}, []string{"people ahead", "http-equiv"}},
		{"next", WaitView{State: "waiting", Number: 2, Ahead: 0}, []string{"You are next"}, []string{"ahead of you", "Estimated wait"}},
		{"position unknown", WaitView{State: "holding", Number: 2, Ahead: -1}, []string{"holding your place", leaveForm}, []string{"ahead of you", "You are next"}},
		{"before opening", WaitView{State: "before_opening", Number: 9, OpensAt: time.Date(2026, 12, 10, 3, 0, 0, 0, time.UTC)},
			[]string{"opens soon", "2026-12-10 03:00 UTC", leaveForm}, []string{"ahead of you", "You are next"}},
		{"paused", WaitView{State: "paused", Number: 9, Ahead: 4, Reason: "<b>Storm</b>"},
			[]string{"paused", "&lt;b&gt;Storm&lt;/b&gt;", "people ahead of you"}, []string{"<b>Storm"}},
		{"closed", WaitView{State: "closed", Reason: "Over"}, []string{"closed", "Over", "Nobody can join"}, []string{leaveForm, joinForm, "place"}},
		{"closed with a place", WaitView{State: "closed", Number: 9, Ahead: 4}, []string{"closed", "Your place is kept; if it opens again, the line moves on.", "<dd>9</dd>", leaveForm},
			[]string{joinForm, "Nobody can join", "people ahead"}},
		{"full", WaitView{State: "full"}, []string{"Nothing is left", "come back later"}, []string{leaveForm, joinForm, "the line moves on", "by yourself", " leave"}},
		{"full with a place", WaitView{State: "full", Number: 9}, []string{"Nothing is left", "the line moves on", "<dd>9</dd>", leaveForm}, []string{"You are next", "come back later"}},
		{"expired", WaitView{State: "expired", Number: 9}, []string{"turn has passed", "Join again", joinForm}, []string{leaveForm}},
		{"admitted", WaitView{State: "admitted", Number: 9}, []string{"It is your turn", `href="/events/spring-tour/"`, `content="1; url=/events/spring-tour/"`}, []string{leaveForm, joinForm}},
		{"no place", WaitView{}, []string{"You are not in line", joinForm}, []string{leaveForm, "http-equiv"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.view.Room, test.view.Lang = tour(), "en"
			page := waitPage(t, test.view)
			for _, want := range test.has {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
			for _, bad := range test.lack {
				if strings.Contains(page, bad) {
					t.Errorf("the page has %q", bad)
				}
			}
			if strings.Contains(page, "<script") || strings.Contains(page, "ZgotmplZ") {
				t.Error("the page has a script or a refused value")
			}
		})
	}
}

func TestWait_SpeaksTheAskedLanguage(t *testing.T) {
	if page := waitPage(t, WaitView{Room: tour(), Lang: "vi", State: "waiting", Ahead: 12345}); !strings.Contains(page, `<html lang="vi">`) ||
		!strings.Contains(page, "<small>khoảng</small> 12.000") {
		t.Error("the Vietnamese page is not Vietnamese")
	}
	if page := waitPage(t, WaitView{Room: tour(), Lang: "xx"}); !strings.Contains(page, `<html lang="vi">`) {
		t.Error("an unknown language does not fall back to the room's first")
	}
}

func TestWait_StyleIsTheOneThatThePolicyNames(t *testing.T) {
	page := waitPage(t, WaitView{Room: tour()})
	if !strings.Contains(page, "<style>"+plainStyle+"</style>") || !strings.Contains(PlainCSP(), hashSource(plainStyle)) {
		t.Error("the inline style and the policy do not match")
	}
	if strings.Contains(PlainCSP(), "script-src") || !strings.HasPrefix(PlainCSP(), "default-src 'none'; ") {
		t.Errorf("the policy allows too much: %s", PlainCSP())
	}
}

func TestWait_ReturnsTheWritersError(t *testing.T) {
	broken := errors.New("pipe closed")
	if err := Wait(failingWriter{broken}, WaitView{Room: tour()}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
