package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's way to Postgres, which goose takes
	"github.com/pressly/goose/v3"

	"ropeline/booking/migrations"
	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shop is a database with the booking core's tables, of one test.
type shop struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

// newShop is on the server that the tests share, as a copy of one database that was migrated.
func newShop(t *testing.T) *shop {
	t.Helper()
	server := pgtest.Server(t)
	template.Do(func() {
		template.name = newName()
		create(t, server, template.name, "template0")
		migrate(t, server.URLOf(template.name))
	})
	name := newName()
	create(t, server, name, template.name)
	t.Cleanup(func() { command(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return openShop(t, server.URLOf(name))
}

// template is the database that the others are copies of. The binary's tests have nothing else in common that could hold it.
var template struct {
	sync.Once
	name string
}

// newPrivateShop is on a server of its own.
func newPrivateShop(t *testing.T, server *pgbox.Server) *shop {
	t.Helper()
	name := newName()
	create(t, server, name, "template0")
	migrate(t, server.URLOf(name))
	return openShop(t, server.URLOf(name))
}

func newName() string { return "outbox_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

func create(t *testing.T, server *pgbox.Server, name, from string) {
	t.Helper()
	command(t, server, "CREATE DATABASE "+name+" TEMPLATE "+from)
}

func command(t *testing.T, server *pgbox.Server, sql string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

func migrate(t *testing.T, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	steps, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func openShop(t *testing.T, url string) *shop {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 40
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &shop{t: t, url: url, pool: pool}
}

// write commits an event of a seat of an event; payload {"n": n}.
func (s *shop) write(key string, n int) {
	s.t.Helper()
	if err := insert(s.t.Context(), s.pool, key, fmt.Sprintf(`{"n":%d}`, n)); err != nil {
		s.t.Fatal(err)
	}
}

// writeMany commits events 1 to n of the key in one transaction.
func (s *shop) writeMany(key string, n int) {
	s.t.Helper()
	s.exec(`INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
	        SELECT 'inventory-changed', 'event', $1, 'SeatsHeld', jsonb_build_object('n', n) FROM generate_series(1, $2::int) n`, key, n)
}

type execer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func insert(ctx context.Context, db execer, key, payload string) error {
	rows, err := db.Query(ctx, `INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
	                            VALUES ('inventory-changed', 'event', $1, 'SeatsHeld', $2)`, key, payload)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	return err
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// count returns a number from the database; -1 while it is away.
func (s *shop) count(sql string, args ...any) (n int) {
	if err := s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

func (s *shop) empty() bool { return s.count(`SELECT count(*) FROM bk.outbox`) == 0 }

func (s *shop) untold() int { return s.count(`SELECT count(*) FROM bk.outbox WHERE NOT told`) }

func (s *shop) connect(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.url) }

// relay runs one over the shop until the test ends or stop is called.
func (s *shop) relay(cfg RelayConfig) (stop func()) {
	if cfg.Interval == 0 {
		cfg.Interval = 10 * time.Millisecond
	}
	return run(s.t, NewRelay(s.pool, cfg).Run)
}

// feed runs one over the shop and returns it once it listens.
func (s *shop) feed() (*Feed, *listener) {
	s.t.Helper()
	l := &listener{}
	f := NewFeed(s.connect, FeedConfig{On: l.on, Reset: l.reset})
	run(s.t, f.Run)
	await(s.t, "the first reset", func() bool { return len(l.resets()) > 0 })
	return f, l
}

// run runs a part until the test ends or stop is called, and waits for it then.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// await returns once it is so. It fails the test after a time that only a hang takes.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// listener keeps what a feed passes on.
type listener struct {
	mu   sync.Mutex
	got  []Event
	news []string // keys of resets
}

func (l *listener) on(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, e)
}

func (l *listener) reset(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news = append(l.news, key)
}

func (l *listener) events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func (l *listener) resets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.news)
}

// memory is a Sink that keeps what it is given. before, if any, decides what becomes of a batch.
type memory struct {
	listener
	muBefore sync.Mutex
	before   func(ctx context.Context, events []Event) error
	ping     func() error
}

func (m *memory) set(before func(ctx context.Context, events []Event) error, ping func() error) {
	m.muBefore.Lock()
	defer m.muBefore.Unlock()
	m.before, m.ping = before, ping
}

func (m *memory) Publish(ctx context.Context, events []Event) error {
	m.muBefore.Lock()
	before := m.before
	m.muBefore.Unlock()
	if before != nil {
		if err := before(ctx, events); err != nil {
			return err
		}
	}
	for _, e := range events {
		m.on(e)
	}
	return nil
}

func (m *memory) Ping(context.Context) error {
	m.muBefore.Lock()
	defer m.muBefore.Unlock()
	if m.ping != nil {
		return m.ping()
	}
	return nil
}

func (m *memory) Close() {}

// firsts are the events without their repetitions.
func firsts(all []Event) []Event {
	seen := map[uuid.UUID]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(e Event) bool {
		again := seen[e.ID]
		seen[e.ID] = true
		return again
	})
}

// inversions counts the events that come after a later one of their key.
func inversions(all []Event) (n int) {
	last := map[string]int64{}
	for _, e := range all {
		if e.Seq < last[e.Key] {
			n++
		}
		last[e.Key] = max(last[e.Key], e.Seq)
	}
	return n
}

// log is a logger and what it wrote.
func log() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var text bytes.Buffer
	w := writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	})
	return slog.New(slog.NewTextHandler(w, nil)), func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
