package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ropeline/cmd/ropeline/crowd"
	"ropeline/internal/redisbox/redistest"
)

// Two nodes, one Redis, two thousand visitors whose every connection may end at either node.
func TestSystem_CrowdThroughTwoNodes(t *testing.T) {
	const limit, visitors = 200, 2000
	two := twoNodes(t, "rate: 120/s, active_limit: 200, session: 10s, claim_window: 10s")
	cfg := crowd.Default()
	cfg.Target = two.target
	cfg.Visitors, cfg.Arrive, cfg.VanishFor, cfg.Stay, cfg.Requests = visitors, 4*time.Second, 3*time.Second, time.Second, 2
	cfg.ActiveLimit, cfg.Batch, cfg.Connections, cfg.Seed = limit, 120, 256, 1
	cfg.Duration = 3 * time.Minute
	report, err := crowd.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	two.stop().check(t, limit)
	checkReport(t, report, two.behind)
	cheats := visitors / 50
	if ends := report.Admitted + report.Left + report.GaveUp; ends != visitors-cheats || report.Lost != 0 {
		t.Errorf("%d admitted, %d left, %d gave up: %d of %d visitors", report.Admitted, report.Left, report.GaveUp, ends, visitors-cheats)
	}
	if report.CameBack == 0 || report.RefusedWithoutToken == 0 || report.Left == 0 {
		t.Errorf("%d came back, %d cheats' knocks refused, %d left: this crowd shows too little", report.CameBack, report.RefusedWithoutToken, report.Left)
	}
	if n := two.rdb.ZCard(t.Context(), "rope:{show}:line:general").Val(); n > int64(report.GaveUp) {
		t.Errorf("%d still in line in Redis, %d gave up", n, report.GaveUp)
	}
	if report.Seconds > 90 {
		t.Errorf("the crowd took %v s to get through", report.Seconds)
	}
}

// checkReport fails where a crowd or the site behind saw a broken promise.
func checkReport(t *testing.T, r crowd.Report, behind *site) {
	t.Helper()
	var text strings.Builder
	_ = r.WriteText(&text) // a builder takes everything
	for _, b := range r.Broken() {
		t.Errorf("broken: %s", b)
	}
	if r.StillWaiting > 0 || r.NotJoined > 0 || r.Unexpected > 0 {
		t.Errorf("%d still wait, %d could not join, %d unexpected answers", r.StillWaiting, r.NotJoined, r.Unexpected)
	}
	behind.mu.Lock()
	defer behind.mu.Unlock()
	if behind.bare > 0 {
		t.Errorf("%d requests reached the site without a session", behind.bare)
	}
	if len(behind.mixed) > 0 {
		t.Errorf("served twice, as the site saw it: %s", strings.Join(behind.mixed, "; "))
	}
	if len(behind.sessions) != r.Admitted {
		t.Errorf("the site saw %d sessions, %d visitors were admitted", len(behind.sessions), r.Admitted)
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("the crowd's report:\n%s", &text)
	}
}

func TestCrowd_ExitCodes(t *testing.T) {
	t.Parallel()
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("come in")) }))
	defer open.Close()
	if r := command(t, environment(), "crowd", "--target", open.URL+"/show/", "--visitors", "5"); r.code != 1 || !strings.Contains(r.errout, "not gated") {
		t.Errorf("against a site without a room: %+v, want exit 1 and the reason", r)
	}
	if r := command(t, environment(), "crowd", "--visitors", "5"); r.code != 2 || !strings.Contains(r.errout, "--target") {
		t.Errorf("without a target: %+v, want exit 2 and what is missing", r)
	}
	behind := newSite(t)
	set := newSettings(t, redistest.Private(t).URL(), behind)
	set.write(t, "id: show, paths: [/show/], rate: 20/s, active_limit: 100, session: 10s, claim_window: 10s, poll: {min: 1s, max: 2s}")
	node := serving(t, set.path)
	r := command(t, environment(), "crowd", "--target", "http://"+node.listen+"/show/", "--visitors", "60", "--arrive", "1s", "--stay", "300ms",
		"--vanish-ratio", "0", "--active-limit", "100", "--json")
	var report crowd.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != 0 {
		t.Fatalf("against a room: exit %d, %v\n%s%s", r.code, err, r.out, r.errout)
	}
	if report.Room != "show" || report.Admitted == 0 || report.RefusedWithoutToken == 0 || len(report.Broken()) > 0 {
		t.Errorf("the report as JSON: %+v", report)
	}
}
