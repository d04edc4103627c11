package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// salesView is the answer of GET /admin/v1/booking.
type salesView struct {
	Postgres string      `json:"postgres"`
	Error    string      `json:"error,omitempty"` // why there are no events
	Events   []eventSale `json:"events"`          // those that are not over since a day, at most 200, by start
	Backlog  backlogView `json:"backlog"`
	Audit    auditView   `json:"audit"`
	Slots    int         `json:"slotsToGiveBack"` // sessions of waiting rooms that end within a minute
}

type eventSale struct {
	ID       int64     `json:"id"`
	Name     string    `json:"name"`
	Status   string    `json:"status"`
	StartsAt time.Time `json:"startsAt"`
	Rooms    []string  `json:"rooms"`
	Free     int64     `json:"free"`
	Held     int64     `json:"held"`
	Sold     int64     `json:"sold"`
	Blocked  int64     `json:"blocked"`
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

// salesSQL counts the seats of each event. A hold whose time is up is free.
const salesSQL = `
SELECT e.event_id, e.name, e.status, e.starts_at, e.rooms,
       count(*) FILTER (WHERE s.status = 'AVAILABLE' OR s.status = 'HELD' AND s.hold_expires_at <= now()),
       count(*) FILTER (WHERE s.status = 'HELD' AND s.hold_expires_at > now()),
       count(*) FILTER (WHERE s.status = 'SOLD'),
       count(*) FILTER (WHERE s.status = 'BLOCKED')
  FROM (SELECT event_id, name, status, starts_at, rooms
          FROM bk.event
         WHERE starts_at > now() - interval '1 day'
         ORDER BY starts_at, event_id
         LIMIT 200) e
  LEFT JOIN bk.seat s USING (event_id)
 GROUP BY e.event_id, e.name, e.status, e.starts_at, e.rooms
 ORDER BY e.starts_at, e.event_id`

// backlogSQL looks at the outbox, up to 100,000 events of it.
const backlogSQL = `
SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8, count(stuck)
  FROM (SELECT created_at, stuck FROM bk.outbox ORDER BY seq LIMIT 100000) o`

// salesAge is how old the counts may be: they cost a look at every seat.
const salesAge = 5 * time.Second

// salesCounts are the counts as they were read last.
type salesCounts struct {
	mu      sync.Mutex
	events  []eventSale
	backlog backlogView
	at      time.Time
}

func (c *salesCounts) get(ctx context.Context, pool *pgxpool.Pool) ([]eventSale, backlogView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < salesAge {
		return c.events, c.backlog, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.events, c.backlog, c.read(ctx, pool)
}

func (c *salesCounts) read(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, salesSQL)
	if err != nil {
		return err
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[eventSale])
	if err != nil {
		return err
	}
	var b backlogView
	if err := pool.QueryRow(ctx, backlogSQL).Scan(&b.Pending, &b.OldestSeconds, &b.Stuck); err != nil {
		return err
	}
	c.events, c.backlog, c.at = events, b, time.Now()
	return nil
}

// view is the shop as an operator sees it.
func (s *shop) view(ctx context.Context) salesView {
	v := salesView{Postgres: s.db.what, Events: []eventSale{}, Slots: s.slots.Waiting(), Audit: s.auditView()}
	events, backlog, err := s.sales.get(ctx, s.work)
	if err != nil {
		s.log.Warn("sales not counted", "err", err)
		v.Error = "Postgres does not answer"
		return v
	}
	v.Events, v.Backlog = append(v.Events, events...), backlog
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
