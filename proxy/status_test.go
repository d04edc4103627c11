package proxy

import (
	"testing"
	"time"

	"ropeline/queue"
)

func TestStatus_IsPublicAndKeptForASecond(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	h.pass(time.Second)
	b := h.browser()
	first := b.do("GET", b.api("/status"), "").want(200)
	if first.Header.Get("Cache-Control") != "public, max-age=1" || first.Header.Get("Content-Type") != "application/json" || len(first.Cookies()) != 0 || first.Header.Get(stateHeader) == "" {
		t.Errorf("headers %v", first.Header)
	}
	var s statusView
	first.json(&s)
	if s.Room != h.room() || s.Title != "Spring Tour" || s.State != "open" || s.Waiting != 0 || s.OpensAt != "" {
		t.Errorf("status %s", first.body)
	}
	h.browser().join().want(201)
	h.eventually("the snapshot", func() bool { return h.line().Snapshot().Waiting == 1 })
	h.eventually("a new answer", func() bool {
		h.pass(time.Second)
		var s statusView
		b.do("GET", b.api("/status"), "").json(&s)
		return s.Waiting == 1
	})
	a := h.edge.site.Load().byID[h.room()].status.last.Load()
	b.do("GET", b.api("/status"), "")
	if again := h.edge.site.Load().byID[h.room()].status.last.Load(); a != again && again.made.Sub(a.made) < time.Second {
		t.Error("made anew within a second")
	}
	head := b.do("HEAD", b.api("/status"), "").want(200)
	if head.body != "" {
		t.Errorf("HEAD has a body: %q", head.body)
	}
}

func TestStatus_States(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	rm := h.edge.site.Load().byID[h.room()]
	opens := time.Now().Add(time.Hour).Truncate(time.Second)
	for want, change := range map[string]func(*queue.Settings){
		"open":           func(*queue.Settings) {},
		"before_opening": func(s *queue.Settings) { s.OpensAt = opens },
		"paused":         func(s *queue.Settings) { s.Mode, s.Reason = queue.Paused, "why" },
		"closed":         func(s *queue.Settings) { s.Mode, s.Reason = queue.Closed, "why" },
		"full":           func(s *queue.Settings) { s.Mode, s.Reason = queue.Full, "why" },
	} {
		h.set(func(s *queue.Settings) { s.Mode, s.OpensAt, s.Reason = queue.Open, time.Time{}, ""; change(s) })
		v := rm.view(h.clock.Now())
		if v.State != want || (want == "before_opening") != (v.OpensAt == opens.UTC().Format(time.RFC3339)) || (v.Reason != "") != (want == "paused" || want == "closed" || want == "full") {
			t.Errorf("%s: %+v", want, v)
		}
	}
	empty := &room{Room: Room{Line: queue.New(h.cfg.rdb, "never-opened", queue.Config{})}}
	if v := empty.view(h.clock.Now()); v.State != "holding" {
		t.Errorf("without a snapshot: %+v", v)
	}
}
