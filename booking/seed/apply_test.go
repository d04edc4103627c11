package seed

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
	"ropeline/internal/pgbox/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var databases atomic.Int64

// database is a new one with the schema in it.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	server, name := pgtest.Server(t), fmt.Sprintf("seed_%d_%d", os.Getpid(), databases.Add(1))
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	if _, _, err := booking.Migrate(ctx, server.URLOf(name)); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, server.URLOf(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func apply(t *testing.T, pool *pgxpool.Pool, text string) Report {
	t.Helper()
	r, err := parsed(t, text).Apply(t.Context(), pool)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	return r
}

// read is one value of the database as text.
func read(t *testing.T, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	var s string
	if err := pool.QueryRow(t.Context(), "SELECT ("+sql+")::text").Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func write(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// hold makes seats somebody's, as the core would.
func hold(t *testing.T, pool *pgxpool.Pool, seats string) {
	t.Helper()
	got := read(t, pool, `SELECT outcome FROM bk.hold_seats(gen_random_uuid(), 70, '{`+seats+`}', NULL, 'c', NULL, NULL, 0, NULL, NULL, -1, NULL, NULL)`)
	if got != "held" {
		t.Fatalf("holding %s: %s", seats, got)
	}
}

const seatsOf70 = `SELECT string_agg(seat_code || ' ' || status || ' ' || channel, ', ' ORDER BY seat_code) FROM bk.seat WHERE event_id = 70`

func TestApply_TheDatabaseSaysWhatTheFileSays(t *testing.T) {
	pool := database(t)
	if r := apply(t, pool, small); r != (Report{Halls: 1, Events: 1, Added: 15}) {
		t.Errorf("report: %s", r)
	}
	for sql, want := range map[string]string{
		seatsOf70: "A1 BLOCKED 0, A2 AVAILABLE 0, A3 AVAILABLE 0, A4 AVAILABLE 0, B1 AVAILABLE 0, B2 BLOCKED 0, B3 BLOCKED 0, B4 AVAILABLE 0, " +
			"Box-1-1 AVAILABLE 0, Box-1-2 AVAILABLE 0, Box-2-1 AVAILABLE 3, Box-2-2 AVAILABLE 3, C1 AVAILABLE 0, C2 AVAILABLE 3, C3 AVAILABLE 0",
		`SELECT count(*) FROM bk.map_seat WHERE map_id = 7`:                                                                    "15",
		`SELECT string_agg(seat_code, ' ' ORDER BY seat_code) FROM bk.map_seat WHERE accessible`:                               "C1 C3",
		`SELECT string_agg(tier || '/' || ticket_type || ' ' || amount_minor, ', ' ORDER BY amount_minor) FROM bk.event_price`: "back/standard 90, front/child 100, front/standard 200",
		`SELECT concat_ws(' ', map_id, status, hold_ttl, checkout_ttl, max_hold_age, max_seats, customer_cap IS NULL, sales_open_at, sales_close_at, rooms)
		   FROM bk.event`: "7 ON_SALE 00:05:00 00:04:00 00:10:00 8 t -infinity 2026-12-24 12:30:00+00 {}",
		`SELECT count(*) FROM bk.seat_rest`: "0",
		`SELECT string_agg(concat_ws(' ', topic, aggregateid, type, payload), ', ') FROM bk.outbox`: `inventory-changed 70 SeatsChanged {"event_id": 70}`,
	} {
		if got := read(t, pool, sql); got != want {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
}

func TestApply_RepeatedChangesNothing(t *testing.T) {
	pool := database(t)
	apply(t, pool, small)
	hold(t, pool, "A2,A3")
	versions := `SELECT string_agg(xmin::text, ' ' ORDER BY seat_code) FROM bk.seat`
	layout := `SELECT string_agg(xmin::text, ' ' ORDER BY seat_code) FROM bk.map_seat`
	before, drawn := read(t, pool, versions), read(t, pool, layout)
	if r := apply(t, pool, small); r != (Report{Halls: 1, Events: 1}) {
		t.Errorf("report: %s", r)
	}
	if got := read(t, pool, `SELECT count(*) FROM bk.outbox WHERE type = 'SeatsChanged'`); got != "1" {
		t.Errorf("it told %s times of changes, want once", got)
	}
	if got := read(t, pool, versions); got != before {
		t.Error("it wrote seats that were as they should be")
	}
	if got := read(t, pool, layout); got != drawn {
		t.Error("it wrote the hall anew")
	}
}

func TestApply_ChangesAnEventDuringTheSaleAndLeavesSeatsThatAreHeldOrSold(t *testing.T) {
	pool := database(t)
	apply(t, pool, small)
	hold(t, pool, "A2,B1")
	write(t, pool, `UPDATE bk.seat SET status = 'SOLD', hold_expires_at = NULL WHERE seat_code = 'B1'`)
	taken := `SELECT string_agg(s::text, ' ' ORDER BY seat_code) FROM bk.seat s WHERE booking_id IS NOT NULL`
	before := read(t, pool, taken)
	r := apply(t, pool, strings.NewReplacer(
		"blocked: [A1, B2..B3]", "blocked: [A2, A4, B1]", "back: 90", "back: 95", "child: 100", "senior: 120", "19:30", "20:30",
		"hold: 5m", "hold: 6m\n    customer_cap: 6\n    rooms: [spring]", "channels: {3: [{section: Box, rows: 2}, C2]}", "channels: {2: [C2]}").Replace(small))
	if want := (Report{Halls: 1, Events: 1, Changed: 7, Kept: 2}); r != want {
		t.Errorf("report: %s\n  want: %s", r, want)
	}
	if got := read(t, pool, taken); got != before {
		t.Errorf("held and sold seats became %s, were %s", got, before)
	}
	for sql, want := range map[string]string{
		`SELECT string_agg(seat_code, ' ' ORDER BY seat_code) FROM bk.seat WHERE status = 'BLOCKED'`:                           "A4",
		`SELECT string_agg(seat_code || channel, ' ' ORDER BY seat_code) FROM bk.seat WHERE channel <> 0`:                      "C22",
		`SELECT string_agg(ticket_type || amount_minor, ' ' ORDER BY amount_minor) FROM bk.event_price`:                        "standard95 senior120 standard200",
		`SELECT concat_ws(' ', hold_ttl, customer_cap, rooms, to_char(starts_at AT TIME ZONE 'UTC', 'HH24:MI')) FROM bk.event`: "00:06:00 6 {spring} 13:30",
	} {
		if got := read(t, pool, sql); got != want {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
}

func TestApply_AHallIsRebuiltAroundWhoHasSeats(t *testing.T) {
	pool := database(t)
	apply(t, pool, small)
	hold(t, pool, "A2")
	smaller := strings.NewReplacer("rows: A..B, seats: 4", "rows: A..B, seats: 3", "rows: C, seats: 3, tier: back", "rows: C, seats: 4, tier: front").Replace(small)
	if r := apply(t, pool, smaller); r.Removed != 2 || r.Added != 1 {
		t.Errorf("report: %s; want A4 and B4 removed, C4 added", r)
	}
	if got := read(t, pool, `SELECT string_agg(seat_code || tier || pos, ' ' ORDER BY seat_code) FROM bk.map_seat WHERE row_key = 'C'`); got != "C1front1 C2front2 C3front3 C4front4" {
		t.Errorf("row C: %s", got)
	}
	without := strings.NewReplacer("rows: A..B, seats: 4", "rows: B, seats: 4", "[A1, B2..B3]", "[B2]").Replace(small)
	_, err := parsed(t, without).Apply(t.Context(), pool)
	if err == nil || !strings.Contains(err.Error(), "A2 of event 70") || strings.Contains(err.Error(), "A3") {
		t.Errorf("taking row A away while A2 is held: %v, want an error that names A2 alone", err)
	}
	if got := read(t, pool, `SELECT count(*) FROM bk.seat WHERE seat_code LIKE 'A_'`); got != "3" {
		t.Errorf("%s seats left of row A, want all 3", got)
	}
}

func TestApply_SeatsChangePlacesInARow(t *testing.T) {
	pool := database(t)
	apply(t, pool, strings.Replace(small, "rows: C, seats: 3,", "rows: C, seats: 3, first: 1,", 1))
	turned := strings.NewReplacer("rows: A..B", "rows: [B, A]").Replace(small)
	apply(t, pool, turned)
	if got := read(t, pool, `SELECT string_agg(row_key || min, ' ' ORDER BY min, row_key DESC) FROM (SELECT row_key, min(rank) FROM bk.map_seat WHERE section = 'Stalls' GROUP BY 1) x`); got != "B0 A1 C2" {
		t.Errorf("ranks: %s", got)
	}
}

func TestApply_CurrencyOfAnEventWithBookingsStays(t *testing.T) {
	pool := database(t)
	apply(t, pool, small)
	euro := strings.Replace(small, "currency: VND", "currency: EUR", 1)
	apply(t, pool, euro)
	hold(t, pool, "A2")
	if _, err := parsed(t, small).Apply(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "from EUR to VND") {
		t.Errorf("err = %v", err)
	}
	if got := read(t, pool, `SELECT currency FROM bk.event`); got != "EUR" {
		t.Errorf("currency %s", got)
	}
}

func TestApply_EventsFarApartHavePartitions(t *testing.T) {
	pool := database(t)
	apply(t, pool, small)
	apply(t, pool, strings.Replace(small, "id: 70", "id: 9000070", 1))
	if got := read(t, pool, `SELECT count(DISTINCT tableoid) FROM bk.seat`) + read(t, pool, `SELECT count(*) FROM bk.seat_rest`); got != "20" {
		t.Errorf("partitions in use and seats in the rest: %s, want 2 and 0", got)
	}
}

func TestApply_AnArenaTakesSeconds(t *testing.T) {
	pool := database(t)
	text, err := os.ReadFile("../../configs/arena-seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r := apply(t, pool, string(text))
	first := time.Since(start)
	if r.Added != 50_000 {
		t.Errorf("report: %s", r)
	}
	start = time.Now()
	if r := apply(t, pool, string(text)); r != (Report{Halls: 1, Events: 1}) {
		t.Errorf("again: %s", r)
	}
	t.Logf("50,000 seats in %s, again in %s", first.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	if got := read(t, pool, `SELECT string_agg(DISTINCT status || channel, ' ') FROM bk.seat`); got != "AVAILABLE0 AVAILABLE1 BLOCKED0" {
		t.Errorf("states: %s", got)
	}
}

// Holders take and give back seats while the same file goes back and forth: nobody deadlocks, and whoever holds a seat
// keeps it.
func TestApply_WhileSeatsAreHeld(t *testing.T) {
	pool := database(t)
	apply(t, pool, small)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 4)
	for w := range 4 {
		go func() { failed <- holdAndRelease(ctx, pool, w) }()
	}
	other := strings.Replace(small, "blocked: [A1, B2..B3]", "blocked: [A2..A4, C1]", 1)
	for range 15 {
		apply(t, pool, other)
		apply(t, pool, small)
	}
	cancel()
	for range 4 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func holdAndRelease(ctx context.Context, pool *pgxpool.Pool, w int) error {
	seats := []string{"{A2,A3,A4,B1,C1}", "{A4,C1,C3}", "{B1,C3}", "{A2,Box-1-1}"}[w%4]
	for ctx.Err() == nil {
		var outcome string
		var id *string
		err := pool.QueryRow(ctx, `SELECT outcome, hold_id::text FROM bk.hold_seats(gen_random_uuid(), 70, $1, NULL, 'c'||$2::text, NULL, NULL, 0, NULL, NULL, 1, NULL, NULL)`,
			seats, fmt.Sprint(w)).Scan(&outcome, &id)
		if err == nil && outcome == "held" {
			var n int
			err = pool.QueryRow(ctx, `
				WITH mine AS (UPDATE bk.booking SET status = 'CANCELLED', resolved_at = now() WHERE booking_id = $1::uuid RETURNING items),
				locked AS MATERIALIZED (SELECT s.seat_code FROM bk.seat s, mine WHERE s.event_id = 70 AND s.seat_code = ANY (mine.items)
				                         ORDER BY s.seat_code FOR NO KEY UPDATE OF s),
				back AS (UPDATE bk.seat s SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL
				           FROM locked l WHERE s.event_id = 70 AND s.seat_code = l.seat_code AND s.booking_id = $1::uuid RETURNING 1)
				SELECT count(*) - (SELECT cardinality(items) FROM mine) FROM back`, id).Scan(&n)
			if err == nil && n != 0 {
				return fmt.Errorf("a hold of %s lost %d seats", seats, -n)
			}
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", seats, err)
		}
	}
	return nil
}
