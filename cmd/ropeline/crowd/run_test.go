package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// smallCrowd is a few hundred people with more odd behaviour than usual, the same at every run.
func smallCrowd() Config {
	cfg := Default()
	cfg.Target = "http://edge.test/show/"
	cfg.Visitors = 400
	cfg.VanishRatio, cfg.ReloadRatio, cfg.TabsRatio, cfg.CheatRatio, cfg.APIRatio = 0.1, 0.2, 0.1, 0.05, 0.1
	cfg.ActiveLimit, cfg.Batch = 60, 10
	cfg.Seed = 11
	return cfg
}

// runInBubble runs cfg against edge in memory and in fake time.
func runInBubble(t *testing.T, edge *fakeEdge, cfg Config) Report {
	t.Helper()
	var report Report
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go edge.run(ctx)
		cfg.client = inMemory{edge}
		var err error
		if report, err = Run(ctx, cfg); err != nil {
			t.Errorf("Run: %v", err)
		}
		cancel()
		synctest.Wait()
	})
	return report
}

func TestRun_CorrectRoomBreaksNothing(t *testing.T) {
	r := runInBubble(t, newFakeEdge(), smallCrowd())
	if broken := r.Broken(); len(broken) > 0 {
		t.Errorf("broken: %q\n%q", broken, r.Examples)
	}
	if len(r.Notes) > 0 || r.Unexpected > 0 || r.NetworkErrors > 0 {
		t.Errorf("notes %q, unexpected %d, network errors %d; want none", r.Notes, r.Unexpected, r.NetworkErrors)
	}
	cheats := 20
	if got := r.Admitted + r.Left + r.GaveUp + cheats; got != r.Visitors {
		t.Errorf("admitted %d + left %d + gave up %d + cheats %d = %d, want all %d", r.Admitted, r.Left, r.GaveUp, cheats, got, r.Visitors)
	}
	if got := r.Joined + r.AdmittedAtOnce + cheats; got < r.Visitors {
		t.Errorf("joined %d + at once %d + cheats %d = %d, want %d or more", r.Joined, r.AdmittedAtOnce, cheats, got, r.Visitors)
	}
	for name, n := range map[string]int{
		"admitted at once": r.AdmittedAtOnce, "left": r.Left, "came back": r.CameBack, "gave up": r.GaveUp,
		"refused without a token": r.RefusedWithoutToken, "sessions ended": r.SessionsEnded, "pages": r.Pages,
		"polls": int(r.Polls), "joins": int(r.Join.Count), "active peak": r.ActivePeak,
	} {
		if n == 0 {
			t.Errorf("%s: 0, want some", name)
		}
	}
	if r.ActivePeak > 60 {
		t.Errorf("active peak %d, want at most 60", r.ActivePeak)
	}
}

// Negative controls: each fault of the room must be named, and nothing else but what follows from it.
func TestRun_BrokenRoomIsCaught(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults faults
		want   string
		also   []string // follows from the fault as well
	}{
		{"last in, first out", faults{lastInFirstOut: true}, "out of order", []string{"got worse"}},
		{"limit ignored", faults{ignoreLimit: true}, "active peak", nil},
		{"reload costs the place", faults{renumber: true}, "got worse", []string{"out of order"}},
		{"thousands in front", faults{fallBack: true}, "got worse", nil},
		{"scripts pass", faults{openToScripts: true}, "passed without a token", nil},
		{"signature not checked", faults{openToExpired: true}, "passed without a token", nil},
		{"second session for a place", faults{twoSessions: true}, "served twice", nil},
		{"one session for all", faults{oneSession: true}, "served twice", []string{"turned away with a token"}},
		{"places forgotten", faults{forget: true}, "lost", nil},
		{"tokens do not open", faults{shutOut: true}, "turned away with a token", []string{"served twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			edge, cfg := newFakeEdge(), smallCrowd()
			edge.later, cfg.Visitors = c.faults, 250
			if c.faults.ignoreLimit {
				edge.batch = 50
			}
			wantBroken(t, runInBubble(t, edge, cfg), c.want, c.also)
		})
	}
}

func wantBroken(t *testing.T, r Report, want string, also []string) {
	t.Helper()
	found := false
	for _, line := range r.Broken() {
		name, _, _ := strings.Cut(line, ":")
		switch {
		case name == want:
			found = true
		case !slices.Contains(also, name):
			t.Errorf("also broken: %q, want only %q\n%q", line, want, r.Examples)
		}
	}
	if !found {
		t.Errorf("broken: %q, want %q", r.Broken(), want)
	}
}

func TestRun_RetriesWhenToldToAndLosesNobody(t *testing.T) {
	edge := newFakeEdge()
	edge.later.notNow = true
	r := runInBubble(t, edge, smallCrowd())
	if len(r.Broken()) > 0 || r.ToldToRetry == 0 {
		t.Errorf("broken %q, told to retry %d; want none and some\n%q", r.Broken(), r.ToldToRetry, r.Examples)
	}
}

func TestRun_DurationEndsTheCrowdAndKeepsItsAccounts(t *testing.T) {
	edge, cfg := newFakeEdge(), smallCrowd()
	edge.batch, edge.budget = 0, 0
	cfg.Duration = 40 * time.Second
	r := runInBubble(t, edge, cfg)
	if r.Seconds != 40 {
		t.Errorf("took %vs, want 40", r.Seconds)
	}
	if r.Admitted != 0 || r.StillWaiting == 0 || r.StillWaiting+r.Left+r.GaveUp != r.Joined {
		t.Errorf("admitted %d, still waiting %d + left %d + gave up %d, joined %d", r.Admitted, r.StillWaiting, r.Left, r.GaveUp, r.Joined)
	}
	if len(r.Broken()) > 0 {
		t.Errorf("broken: %q", r.Broken())
	}
}

func TestRun_VisitorsGiveUp(t *testing.T) {
	edge, cfg := newFakeEdge(), smallCrowd()
	edge.batch, edge.budget = 0, 0
	cfg.GiveUp = 30 * time.Second
	r := runInBubble(t, edge, cfg)
	if r.GaveUp == 0 || r.StillWaiting != 0 || r.GaveUp+r.Left != r.Joined {
		t.Errorf("gave up %d + left %d, still waiting %d, joined %d", r.GaveUp, r.Left, r.StillWaiting, r.Joined)
	}
}

func TestRun_SameSeedSamePlans(t *testing.T) {
	cfg := smallCrowd()
	for i := range 50 {
		a, b := newPlan(cfg, i, newSource(cfg.Seed, i)), newPlan(cfg, i, newSource(cfg.Seed, i))
		if a != b {
			t.Fatalf("visitor %d: %+v and %+v", i, a, b)
		}
	}
}

func TestRun_RefusesWhatCannotBeRun(t *testing.T) {
	cfg := smallCrowd()
	cfg.Target, cfg.Visitors, cfg.LeaveRatio, cfg.Stay = "ftp://x", 0, 1.5, -1
	_, err := Run(t.Context(), cfg)
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("err = %v, want ErrConfig", err)
	}
	for _, name := range []string{"target", "visitors", "leave-ratio", "stay"} {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("%q does not name %s", err, name)
		}
	}

	cfg = smallCrowd()
	cfg.client = inMemory{http.NotFoundHandler()}
	if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrNoRoom) {
		t.Errorf("no room: err = %v, want ErrNoRoom", err)
	}
	cfg.client = inMemory{http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrNotGated) {
		t.Errorf("no gate: err = %v, want ErrNotGated", err)
	}
}

func TestRun_OverSockets(t *testing.T) {
	edge := newFakeEdge()
	edge.tick = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { edge.run(ctx); close(done) }()
	server := httptest.NewServer(edge)
	defer server.Close()

	cfg := smallCrowd()
	cfg.Target = server.URL + "/show/?from=mail"
	cfg.Visitors, cfg.Arrive, cfg.Stay, cfg.VanishFor = 120, 200*time.Millisecond, 50*time.Millisecond, time.Second
	cfg.Connections = 16
	var progress bytes.Buffer
	cfg.Progress = &progress
	r, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Broken()) > 0 || r.Unexpected > 0 {
		t.Errorf("broken %q, unexpected %d\n%q\n%q", r.Broken(), r.Unexpected, r.Examples, r.Notes)
	}
	if r.Room != "spring" || r.Admitted == 0 || r.RefusedWithoutToken == 0 {
		t.Errorf("room %q, admitted %d, refused %d", r.Room, r.Admitted, r.RefusedWithoutToken)
	}
	if !strings.Contains(progress.String(), "admitted") {
		t.Errorf("progress = %q", progress.String())
	}
	cancel()
	<-done
}

func TestReport_TextAndJSON(t *testing.T) {
	r := runInBubble(t, newFakeEdge(), smallCrowd())
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"out of order: 0", "got worse: 0", "served twice: 0", "lost: 0", "passed without a token: 0", "still waiting: 0",
	} {
		if !strings.Contains("\n"+text.String(), "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text.String())
		}
	}
	for _, key := range []string{
		"joined", "admitted", "admitted at once", "active peak", "left", "came back", "refused without a token", "polls",
		"poll p50", "poll p99", "join p50", "join p99", "admissions per second",
	} {
		if !strings.Contains("\n"+text.String(), "\n"+key+": ") {
			t.Errorf("no key %q in\n%s", key, text.String())
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if back["joined"] != float64(r.Joined) || back["outOfOrder"] != float64(0) {
		t.Errorf("JSON: %s", raw)
	}
}

func TestRun_SessionsThatRunOutAreNoBrokenPromise(t *testing.T) {
	edge, cfg := newFakeEdge(), smallCrowd()
	edge.session, cfg.Stay, cfg.Requests = 8*time.Second, 20*time.Second, 6
	r := runInBubble(t, edge, cfg)
	if len(r.Broken()) > 0 {
		t.Errorf("broken: %q\n%q", r.Broken(), r.Examples)
	}
}
