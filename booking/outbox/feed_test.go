package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ropeline/internal/pgbox/pgtest"
)

func TestFeed_IsFreshOnlyWhileARelayRuns(t *testing.T) {
	s := newShop(t)
	feed, _ := s.feed()
	if feed.Fresh("42") {
		t.Error("fresh without a relay")
	}
	stop := s.relay(RelayConfig{})
	await(t, "a fresh feed", func() bool { return feed.Fresh("42") })
	stop()
	await(t, "the feed to grow stale", func() bool { return !feed.Fresh("42") })
}

func TestFeed_KnowsTheShardOfAKeyItHeardOf(t *testing.T) {
	s := newShop(t)
	feed, heard := s.feed()
	stop := s.relay(RelayConfig{})
	s.write("42", 1)
	await(t, "the event", func() bool { return len(heard.events()) == 1 })
	stop()
	await(t, "the feed to grow stale", func() bool { return !feed.Fresh("42") })
	shard := s.count(`SELECT hashtext('42') & 3`)
	s.exec(`SELECT pg_notify('bk_feed', $1)`, heartbeat(shard))
	await(t, "the key to be fresh", func() bool { return feed.Fresh("42") })
	if feed.Fresh("a key never heard of") {
		t.Error("fresh, though three shards are not")
	}
}

func TestFeed_LostConnectionResets(t *testing.T) {
	s := newShop(t)
	feed, heard := s.feed()
	s.relay(RelayConfig{})
	await(t, "a fresh feed", func() bool { return feed.Fresh("42") })
	s.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`)
	await(t, "the second reset", func() bool { return len(heard.resets()) == 2 })
	await(t, "a fresh feed", func() bool { return feed.Fresh("42") })
	s.write("42", 1)
	await(t, "an event", func() bool { return len(heard.events()) == 1 })
	if got := heard.resets(); got[0] != "" || got[1] != "" {
		t.Errorf("resets of keys %q, want of all", got)
	}
}

func TestFeed_EventTooLargeToTellResetsItsKey(t *testing.T) {
	s := newShop(t)
	_, heard := s.feed()
	s.relay(RelayConfig{})
	if err := insert(t.Context(), s.pool, "42", fmt.Sprintf(`{"seats":"%s"}`, strings.Repeat("x", 9000))); err != nil {
		t.Fatal(err)
	}
	s.write("42", 2)
	await(t, "the event after it", func() bool { return len(heard.events()) == 1 })
	if got := heard.resets(); len(got) != 2 || got[1] != "42" {
		t.Errorf("resets of keys %q, want of all and of 42", got)
	}
}

// A pooler in transaction mode takes LISTEN and then passes nothing on. Another database behaves the same.
func TestFeed_WhereListenIsLostIsNeverFreshAndSaysSo(t *testing.T) {
	s, elsewhere := newShop(t), pgtest.Server(t).URL()
	logger, written := log()
	reg := prometheus.NewRegistry()
	f := NewFeed(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, elsewhere) }, FeedConfig{Logger: logger, Metrics: reg})
	run(t, f.Run)
	s.relay(RelayConfig{})
	s.write("42", 1)
	await(t, "the relay to go on", s.empty)
	await(t, "a line in the log", func() bool { return strings.Contains(written(), "nothing heard") })
	if f.Fresh("42") {
		t.Error("fresh without having heard anything")
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ropeline_booking_feed_fresh 1 while this node hears of every change within 700 ms, else 0.
# TYPE ropeline_booking_feed_fresh gauge
ropeline_booking_feed_fresh 0
`)); err != nil {
		t.Error(err)
	}
}

func TestFeed_WhoCannotConnectIsToldOnce(t *testing.T) {
	logger, written := log()
	calls := make(chan struct{}, 100)
	f := NewFeed(func(context.Context) (*pgx.Conn, error) {
		calls <- struct{}{}
		return nil, fmt.Errorf("no postgres")
	}, FeedConfig{Logger: logger})
	stop := run(t, f.Run)
	<-calls
	<-calls
	<-calls
	stop()
	if got := strings.Count(written(), "no postgres"); got != 1 {
		t.Errorf("%d lines of the log, want 1:\n%s", got, written())
	}
}

func TestEar_WhoIsTooSlowIsToldThatMessagesAreMissing(t *testing.T) {
	e := &ear{heard: make(chan heard, 4)}
	for i := range 5 {
		e.put(heard{text: fmt.Sprint(i)})
	}
	if first, second := <-e.heard, <-e.heard; !first.missed || second.text != "4" {
		t.Errorf("got %+v, %+v; want the loss and then what came last", first, second)
	}
}
