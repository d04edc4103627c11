// Package bookingtest gives tests a database with the schema of the booking core, and something on sale in it.
package bookingtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/peterldowns/pgtestdb"

	"ropeline/booking"
	"ropeline/booking/migrations"
	"ropeline/internal/pgbox/pgtest"
)

// Database returns the URL of a new database with the schema, on the server that the tests share. It goes with the test.
func Database(tb testing.TB) string {
	tb.Helper()
	server, err := url.Parse(pgtest.Server(tb).URL())
	if err != nil {
		tb.Fatal(err)
	}
	password, _ := server.User.Password()
	return pgtestdb.Custom(tb, pgtestdb.Config{
		DriverName: "pgx", Host: server.Hostname(), Port: server.Port(), User: server.User.Username(), Password: password,
		Database: strings.TrimPrefix(server.Path, "/"), Options: server.RawQuery, ForceTerminateConnections: true,
	}, schema{}).URL()
}

// schema makes the template that each database is a copy of.
type schema struct{}

// Hash names the schema by the content of its steps.
func (schema) Hash() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(migrations.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := migrations.Files.ReadFile(name)
		_, _ = sum.Write(data)
		return err
	})
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// Migrate makes the schema.
func (schema) Migrate(ctx context.Context, _ *sql.DB, conf pgtestdb.Config) error {
	_, _, err := booking.Migrate(ctx, conf.URL())
	return err
}

// Core returns a core on the database at url. Its pools close with the test; Run is the test's to call.
func Core(tb testing.TB, url string, cfg booking.Config) *booking.Core {
	tb.Helper()
	ctx := context.Background()
	holds, err := booking.OpenHolds(ctx, url, 6)
	if err != nil {
		tb.Fatal(err)
	}
	work, err := booking.OpenWork(ctx, url, 10)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(holds.Close)
	tb.Cleanup(work.Close)
	return booking.New(holds, work, cfg)
}

// Pool returns a pool for a test's own questions, which closes with it.
func Pool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// Sale is an event on sale. Its seats are A1, A2, ... B1, ..., all of tier "std" in section "main".
type Sale struct {
	Event        int64 // default 42
	Rows, PerRow int   // default 10 and 10
	Price        int64 // minor units; default 300,000; -1 = nothing
	Hold         time.Duration
	Checkout     time.Duration
	MaxAge       time.Duration
	MaxSeats     int
	Cap          int // customer_cap; 0 = none
	PerMinute    int // holds_per_min; 0 = no limit
	Rooms        []string
	Gate         bool
	Late         string // late_policy; default refund
	StartsIn     time.Duration
}

// Seats are the codes of the seats, in the order of the hall.
func (s Sale) Seats() []string {
	s = s.filled()
	var all []string
	for row := range s.Rows {
		for n := range s.PerRow {
			all = append(all, Seat(row, n))
		}
	}
	return all
}

// Seat is the code of seat n, from 0, in a row, from 0: A1 ... Z9, AA1.
func Seat(row, n int) string {
	name := ""
	for r := row; r >= 0; r = r/26 - 1 {
		name = string(rune('A'+r%26)) + name
	}
	return fmt.Sprintf("%s%d", name, n+1)
}

func (s Sale) filled() Sale {
	set := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	for _, p := range []struct {
		to *int
		n  int
	}{{&s.Rows, 10}, {&s.PerRow, 10}, {&s.MaxSeats, 8}} {
		if *p.to == 0 {
			*p.to = p.n
		}
	}
	if s.Event == 0 {
		s.Event = 42
	}
	if s.Price == 0 {
		s.Price = 300_000
	}
	if s.Price < 0 {
		s.Price = 0
	}
	if s.Late == "" {
		s.Late = "refund"
	}
	set(&s.Hold, 10*time.Minute)
	set(&s.Checkout, s.Hold*8/10)
	set(&s.MaxAge, 2*s.Hold)
	set(&s.StartsIn, 30*24*time.Hour)
	return s
}

// Open puts the sale into the database at url and returns its seats.
func Open(tb testing.TB, url string, s Sale) []string {
	tb.Helper()
	s = s.filled()
	ctx := context.Background()
	pool := Pool(tb, url)
	run := func(sql string, args ...any) {
		tb.Helper()
		if _, err := pool.Exec(ctx, sql, args...); err != nil {
			tb.Fatal(err)
		}
	}
	rooms := s.Rooms
	if rooms == nil {
		rooms = []string{}
	}
	var customerCap *int
	if s.Cap > 0 {
		customerCap = &s.Cap
	}
	run(`INSERT INTO bk.map VALUES ($1, 'hall')`, s.Event)
	run(`INSERT INTO bk.event (event_id, kind, map_id, name, starts_at, venue_tz, currency, status, hold_ttl, checkout_ttl, max_hold_age, max_seats,
	                          customer_cap, holds_per_min, rooms, redis_gate, late_policy)
	     VALUES ($1, 'concert', $1, 'Spring Tour', now() + $2, 'Asia/Ho_Chi_Minh', 'VND', 'ON_SALE', $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		s.Event, s.StartsIn, s.Hold, s.Checkout, s.MaxAge, s.MaxSeats, customerCap, s.PerMinute, rooms, s.Gate, s.Late)
	run(`INSERT INTO bk.event_price VALUES ($1, 'std', 'standard', $2), ($1, 'std', 'child', $2 / 2)`, s.Event, s.Price)
	run(`SELECT bk.make_partitions()`)
	var codes, rowKeys []string
	var positions []int
	for row := range s.Rows {
		for n := range s.PerRow {
			codes, rowKeys, positions = append(codes, Seat(row, n)), append(rowKeys, fmt.Sprintf("%05d", row)), append(positions, n+1)
		}
	}
	run(`INSERT INTO bk.map_seat (map_id, seat_code, section, row_key, pos, tier) SELECT $1, c, 'main', r, p, 'std' FROM unnest($2::text[], $3::text[], $4::int[]) u(c, r, p)`,
		s.Event, codes, rowKeys, positions)
	run(`INSERT INTO bk.seat (event_id, seat_code) SELECT $1, c FROM unnest($2::text[]) c`, s.Event, codes)
	return codes
}

// Choose asks for seats with standard tickets.
func Choose(seats ...string) []booking.Choice {
	out := make([]booking.Choice, len(seats))
	for i, s := range seats {
		out[i].Seat = s
	}
	return out
}
