package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
)

var errDown = errors.New("broker down")

func TestRelay_WithoutABrokerTellsAndDeletes(t *testing.T) {
	s := newShop(t)
	_, heard := s.feed()
	s.relay(RelayConfig{})
	s.write("42", 1)
	await(t, "the event", func() bool { return len(heard.events()) == 1 && s.empty() })
	e := heard.events()[0]
	if e.Key != "42" || e.Topic != "inventory-changed" || e.AggregateType != "event" || e.Type != "SeatsHeld" || string(e.Payload) != `{"n":1}` ||
		e.Seq == 0 || e.ID.Version() != 4 || e.At.IsZero() {
		t.Errorf("got %+v", e)
	}
}

func TestRelay_NodesHearWhileTheBrokerIsAwayAndTheBacklogGoesOutInOrder(t *testing.T) {
	s, sink := newShop(t), &memory{}
	feed, heard := s.feed()
	logger, written := log()
	down := func() error { return errDown }
	sink.set(func(context.Context, []Event) error { return errDown }, down)
	reg := prometheus.NewRegistry()
	s.relay(RelayConfig{Sink: sink, Logger: logger, Metrics: reg})
	const n = 2500 // more than two batches of a shard
	s.writeMany("42", n)
	s.write("43", 1)
	await(t, "the news", func() bool { return len(heard.events()) == n+1 })
	await(t, "a fresh feed", func() bool { return feed.Fresh("42") && feed.Fresh("43") })
	if got := s.count(`SELECT count(*) FROM bk.outbox WHERE told`); got != n+1 {
		t.Errorf("%d events wait for the broker, want %d", got, n+1)
	}
	sink.set(nil, nil)
	await(t, "an empty outbox", s.empty)
	if got := sink.events(); len(got) != n+1 || inversions(got) > 0 {
		t.Errorf("published %d events with %d inversions, want %d with none", len(got), inversions(got), n+1)
	}
	if got := heard.events(); len(got) != n+1 {
		t.Errorf("told %d times of %d events", len(got), n+1)
	}
	if got := written(); strings.Count(got, "broker away") != 1 || strings.Count(got, "broker back") != 1 {
		t.Errorf("an outage is two lines of the log, got:\n%s", got)
	}
	if lines, err := testutil.GatherAndLint(reg); err != nil || len(lines) > 0 {
		t.Errorf("metrics: %v %v", lines, err)
	}
	if got := testutil.ToFloat64(counter(t, reg, "ropeline_booking_outbox_published_total")); got != n+1 {
		t.Errorf("published_total is %v, want %d", got, n+1)
	}
}

// counter wraps the sum of a gathered family as something to read.
func counter(t *testing.T, reg *prometheus.Registry, name string) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := prometheus.NewGauge(prometheus.GaugeOpts{Name: name})
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum.Add(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}

func TestRelay_SlowBrokerKeepsNoNewsBack(t *testing.T) {
	s, sink := newShop(t), &memory{}
	feed, heard := s.feed()
	held := make(chan struct{})
	sink.set(func(ctx context.Context, _ []Event) error {
		select {
		case <-held:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil)
	s.relay(RelayConfig{Sink: sink})
	for n := range 20 {
		s.write("42", n)
		await(t, "the news", func() bool { return len(heard.events()) == n+1 })
	}
	await(t, "a fresh feed", func() bool { return feed.Fresh("42") })
	close(held)
	await(t, "an empty outbox", s.empty)
	if got := firsts(sink.events()); len(got) != 20 || inversions(got) > 0 {
		t.Errorf("published %d events with %d inversions", len(got), inversions(got))
	}
}

func TestRelay_CrashBetweenAcknowledgementAndCommitRepeats(t *testing.T) {
	for _, near := range []bool{true, false} { // published by a turn, or from the backlog
		t.Run(fmt.Sprintf("near=%v", near), func(t *testing.T) {
			s, sink := newShop(t), &memory{}
			s.relay(RelayConfig{Sink: sink})
			if near {
				s.write("42", 0)
				await(t, "the first event", s.empty) // from now on turns publish by themselves
			}
			before := len(sink.events())
			var crashes atomic.Int32
			sink.set(func(ctx context.Context, events []Event) error {
				if crashes.Add(1) > 1 {
					return nil
				}
				for _, e := range events {
					sink.on(e) // the broker has them
				}
				_, err := s.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
				                             WHERE locktype = 'advisory' AND classid = 4711 AND objid >= 16 AND pid <> pg_backend_pid()
				                               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
				return err
			}, nil)
			s.write("42", 1)
			await(t, "an empty outbox", s.empty)
			got := sink.events()[before:]
			if len(firsts(got)) != 1 || len(got) < 2 {
				t.Errorf("got %d times 1 event: it was acknowledged, its row came back, so it comes again", len(got))
			}
			if crashes.Load() < 2 {
				t.Error("the relay did not crash")
			}
		})
	}
}

func TestRelay_StuckEventStopsItsKeyOnly(t *testing.T) {
	s, sink := newShop(t), &memory{}
	_, heard := s.feed()
	logger, written := log()
	sink.set(func(_ context.Context, events []Event) error {
		for _, e := range events {
			if strings.Contains(string(e.Payload), "poison") {
				return &StuckError{Seq: e.Seq, Reason: "too large"}
			}
		}
		return nil
	}, nil)
	relay := NewRelay(s.pool, RelayConfig{Sink: sink, Logger: logger, Interval: 10 * time.Millisecond})
	run(t, relay.Run)
	keys := s.keysOfOneShard(2)
	bad, good := keys[0], keys[1]
	s.write(bad, 1)
	if err := insert(t.Context(), s.pool, bad, `{"poison":true}`); err != nil {
		t.Fatal(err)
	}
	s.writeMany(bad, 2*batch) // waits, and fills more than a batch
	s.writeMany(good, 10)
	await(t, "the news of all", func() bool { return len(heard.events()) == 1+1+2*batch+10 })
	await(t, "the other key", func() bool { return s.count(`SELECT count(*) FROM bk.outbox WHERE aggregateid = $1`, good) == 0 })
	s.write(good, 11)
	await(t, "the other key again", func() bool { return s.count(`SELECT count(*) FROM bk.outbox WHERE aggregateid = $1`, good) == 0 })
	if got := s.count(`SELECT count(*) FROM bk.outbox WHERE aggregateid = $1`, bad); got != 1+2*batch {
		t.Errorf("%d events of the key wait, want %d", got, 1+2*batch)
	}
	if got := len(sink.events()); got != 12 {
		t.Errorf("published %d events, want 1 before the stuck one and 11 of the other key", got)
	}
	if got := strings.Count(written(), "event stuck"); got != 1 {
		t.Errorf("%d lines of the log about it, want 1", got)
	}
	if b, err := relay.look(t.Context()); err != nil || b.Stuck != 1 || b.Pending != 1+2*batch || b.Oldest <= 0 {
		t.Errorf("backlog is %+v, %v", b, err)
	}
	s.exec(`DELETE FROM bk.outbox WHERE stuck IS NOT NULL`)
	await(t, "the key to go on", s.empty)
	if got := sink.events(); len(got) != 12+2*batch || inversions(got) > 0 {
		t.Errorf("published %d events with %d inversions, want %d with none", len(got), inversions(got), 12+2*batch)
	}
}

// keysOfOneShard are n keys that Postgres puts into the same shard.
func (s *shop) keysOfOneShard(n int) []string {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT k::text FROM generate_series(1, 1000) k WHERE hashtext(k::text) & 3 = 1 LIMIT $1`, n)
	if err != nil {
		s.t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

func TestRelay_RowsThatAnotherNodeLeftAreTakenOver(t *testing.T) {
	s, sink := newShop(t), &memory{}
	away := &memory{}
	away.set(nil, func() error { return errDown })
	s.relay(RelayConfig{Sink: away}) // a node that can't reach the broker, but tells of everything
	s.writeMany("42", 10)
	await(t, "the news", func() bool { return s.untold() == 0 })
	s.relay(RelayConfig{Sink: sink})
	await(t, "an empty outbox", s.empty)
	s.writeMany("42", 10)
	await(t, "an empty outbox", s.empty)
	if got := sink.events(); len(got) != 20 || inversions(got) > 0 {
		t.Errorf("published %d events with %d inversions", len(got), inversions(got))
	}
}

func TestRelay_GoesOnAfterPostgresRestarts(t *testing.T) {
	server := pgtest.Private(t, pgbox.Config{Dir: pgtest.Dir(t)})
	s, sink := newPrivateShop(t, server), &memory{}
	feed, heard := s.feed()
	logger, written := log()
	s.relay(RelayConfig{Sink: sink, Logger: logger})
	s.write("42", 1)
	await(t, "the first event", func() bool { return len(sink.events()) == 1 })
	server.Kill()
	await(t, "the relay to see it", func() bool { return strings.Contains(written(), "postgres away") })
	await(t, "the feed to see it", func() bool { return !feed.Fresh("42") })
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a write", func() bool { return insert(t.Context(), s.pool, "42", `{"n":2}`) == nil })
	await(t, "the second event", func() bool { return len(firsts(sink.events())) == 2 && s.empty() })
	await(t, "a fresh feed", func() bool { return feed.Fresh("42") })
	if len(heard.resets()) < 2 {
		t.Error("the feed connected again without a reset")
	}
	if got := strings.Count(written(), "postgres away"); got != 1 {
		t.Errorf("%d lines of the log about it, want 1:\n%s", got, written())
	}
}

// A table that was empty when it was analyzed last looks small to the planner, however long the broker is away.
func TestRelay_ReadsAGrownTableByItsIndex(t *testing.T) {
	s := newShop(t)
	s.exec(`ANALYZE bk.outbox`)
	s.writeMany("42", 20000)
	s.exec(`UPDATE bk.outbox SET told = true WHERE seq % 2 = 0`)
	relay := NewRelay(s.pool, RelayConfig{})
	for _, where := range []string{`WHERE shard = $1`, `WHERE shard = $1 AND NOT told`, `WHERE shard = $1 AND told AND aggregateid <> ALL ('{}'::text[])`} {
		var plan string
		err := relay.within(t.Context(), tellLock, func(ctx context.Context, tx pgx.Tx) error {
			lines, err := tx.Query(ctx, `EXPLAIN `+strings.ReplaceAll(readSQL(where), "$1", "1"))
			if err != nil {
				return err
			}
			all, err := pgx.CollectRows(lines, pgx.RowTo[string])
			plan = strings.Join(all, "\n")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Sort") {
			t.Errorf("%s:\n%s", where, plan)
		}
	}
}

func TestRelay_EndsWhileTheBrokerHangs(t *testing.T) {
	s, sink := newShop(t), &memory{}
	hangs := make(chan struct{}, 100)
	sink.set(func(ctx context.Context, _ []Event) error {
		hangs <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	stop := s.relay(RelayConfig{Sink: sink})
	s.write("42", 1)
	<-hangs
	stop() // fails the test if Run does not end
	if n := s.count(`SELECT count(*) FROM bk.outbox`); n != 1 {
		t.Errorf("%d events wait, want 1", n)
	}
}

func TestRelay_BurstGoesOutAtOnce(t *testing.T) {
	s := newShop(t)
	feed, heard := s.feed()
	sink := kafkaSink(t, KafkaConfig{Brokers: broker(t).ListenAddrs()})
	s.relay(RelayConfig{Sink: sink, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	s.write("0", 1)
	await(t, "the first event", s.empty)
	const keys, each = 40, 250
	began := time.Now()
	s.exec(`INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
	        SELECT 'inventory-changed', 'event', (n % $1)::text, 'SeatsHeld', jsonb_build_object('n', n, 'seats', ARRAY['F5','F6'], 'customer', md5(n::text))
	          FROM generate_series(1, $1::int * $2::int) n`, keys, each)
	written := time.Since(began)
	await(t, "an empty outbox", s.empty)
	published := time.Since(began) - written
	await(t, "the news", func() bool { return len(firsts(heard.events())) == keys*each+1 })
	await(t, "a fresh feed", func() bool { return feed.Fresh("1") })
	t.Logf("%d events written in %v, told and published after another %v", keys*each, written, published)
}
