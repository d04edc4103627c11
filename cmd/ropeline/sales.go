package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"ropeline/booking"
)

// salesView is the answer of GET /admin/v1/booking.
type salesView struct {
	Postgres string         `json:"postgres"`
	Error    string         `json:"error,omitempty"` // why there are no events
	Events   []booking.Sale `json:"events"`          // those that are not over since a day, at most 200, by start
	Backlog  backlogView    `json:"backlog"`
	Audit    auditView      `json:"audit"`
	Slots    int            `json:"slotsToGiveBack"` // sessions of waiting rooms that end within a minute
}

type backlogView struct {
	Pending       int64   `json:"pending"` // events in the outbox
	OldestSeconds float64 `json:"oldestSeconds"`
	Stuck         int64   `json:"stuck"`
}

type auditView struct {
	At       string   `json:"at,omitempty"` // of the last audit by this node
	Clean    bool     `json:"clean"`
	Findings []string `json:"findings"` // at most 100
	Error    string   `json:"error,omitempty"`
}

// salesAge is how old the counts may be: they cost a look at every seat.
const salesAge = 5 * time.Second

// salesCounts are the counts as they were read last.
type salesCounts struct {
	mu     sync.Mutex
	events []booking.Sale
	at     time.Time
}

func (c *salesCounts) get(ctx context.Context, core *booking.Core) ([]booking.Sale, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < salesAge {
		return c.events, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	events, err := core.Sales(ctx)
	if err == nil {
		c.events, c.at = events, time.Now()
	}
	return events, err
}

// view is the shop as an operator sees it.
func (s *shop) view(ctx context.Context) salesView {
	v := salesView{Postgres: s.db.what, Events: []booking.Sale{}, Slots: s.slots.Waiting(), Audit: s.auditView()}
	events, err := s.sales.get(ctx, s.core)
	if err != nil {
		s.log.Warn("sales not counted", "err", err)
		v.Error = "Postgres does not answer"
		return v
	}
	backlog := s.core.Backlog()
	v.Events, v.Backlog = append(v.Events, events...), backlogView{backlog.Pending, backlog.Oldest.Seconds(), backlog.Stuck}
	return v
}

func (s *shop) auditView() auditView {
	found, at, err := s.core.LastAudit()
	v := auditView{Findings: []string{}}
	if !at.IsZero() {
		v.At = at.UTC().Format(time.RFC3339)
	}
	if err != nil {
		v.Error = "the last audit did not come to its end"
		return v
	}
	for _, f := range found[:min(len(found), 100)] {
		v.Findings = append(v.Findings, f.Rule+": "+f.What)
	}
	v.Clean = !at.IsZero() && len(found) == 0
	return v
}

// serveSales answers GET /admin/v1/booking.
func (s *shop) serveSales(w http.ResponseWriter, r *http.Request) { writeView(w, s.view(r.Context())) }

// writeView answers with indented JSON.
func writeView(w http.ResponseWriter, view any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(view)
}
