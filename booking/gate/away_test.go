package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox"
	"ropeline/internal/redisbox/redistest"
)

// clock is a time that moves when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// counter counts the scripts that a client is given.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// deaf is the address of a server that takes connections and never answers.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestGate_OpensWithinItsTimeout: the clients would wait three seconds and more by themselves.
func TestGate_OpensWithinItsTimeout(t *testing.T) {
	addr := deaf(t)
	clients := map[string]redis.UniversalClient{
		"redis": redisbox.Client(addr),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{addr}, MaxRetries: -1, MaxRedirects: 3, ContextTimeoutEnabled: true,
		}),
	}
	for name, rdb := range clients {
		t.Run(name, func(t *testing.T) {
			defer rdb.Close()
			g := New(rdb, Config{Now: newClock().Now})
			began := time.Now()
			taken, err := g.Take(t.Context(), 1, []string{"F5"}, "a", time.Hour)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("waited %v, want 50ms", took)
			}
			if taken != nil || !errors.Is(err, ErrAway) {
				t.Errorf("got %v, %v; want nil, ErrAway", taken, err)
			}
		})
	}
}

func TestGate_ASilentRedisIsTriedOnceASecond(t *testing.T) {
	rdb, now, asked := redisbox.Client(deaf(t)), newClock(), &counter{}
	defer rdb.Close()
	rdb.AddHook(asked)
	g := New(rdb, Config{Timeout: 5 * time.Millisecond, Now: now.Now})
	tries := func(n int64) {
		t.Helper()
		for range 20 {
			if _, err := g.Take(t.Context(), 1, []string{"F5"}, "a", time.Hour); !errors.Is(err, ErrAway) {
				t.Fatalf("got %v, want ErrAway", err)
			}
		}
		if got := asked.n.Load(); got != n {
			t.Errorf("Redis was asked %d times, want %d", got, n)
		}
	}
	tries(1)
	now.add(999 * time.Millisecond)
	tries(1)
	now.add(time.Millisecond)
	tries(2)
	now.add(time.Second)
	tries(3)
	if _, err := g.Take(t.Context(), 2, []string{"F5"}, "a", time.Hour); !errors.Is(err, ErrAway) || asked.n.Load() != 4 {
		t.Errorf("another event: %v and %d calls, want ErrAway and one more", err, asked.n.Load())
	}
}

func TestGate_WorksAgainWhenRedisIsBack(t *testing.T) {
	server, now := redistest.Private(t), newClock()
	rdb := server.Client()
	defer rdb.Close()
	var log strings.Builder
	registry := prometheus.NewRegistry()
	g := New(rdb, Config{Timeout: 20 * time.Second, Now: now.Now, Logger: logTo(&log), Metrics: registry})
	take(t, g, 1, "a", "F5")
	server.Kill()
	for range 3 {
		if _, err := g.Take(t.Context(), 1, []string{"F5"}, "b", time.Hour); !errors.Is(err, ErrAway) {
			t.Fatalf("got %v, want ErrAway", err)
		}
	}
	if n := testutil.ToFloat64(g.metrics.open); n != 1 {
		t.Errorf("%v events open, want 1", n)
	}
	if err := server.Restart(t.Context()); err != nil { // empty
		t.Fatal(err)
	}
	now.add(time.Second)
	want(t, "after the restart", take(t, g, 1, "b", "F5"), []string(nil))
	want(t, "and then", take(t, g, 1, "c", "F5"), []string{"F5"})
	if n := testutil.ToFloat64(g.metrics.open); n != 0 {
		t.Errorf("%v events open, want 0", n)
	}
	if got := log.String(); strings.Count(got, "does not answer") != 1 || strings.Count(got, "answers again") != 1 {
		t.Errorf("logged\n%swant one line when it went and one when it came back", got)
	}
}

// TestGate_MarksThatCouldNotBeDroppedRefuseNobodyAfterwards: a is told of Redis's silence, its marks are set all the same
// when Redis wakes, and by then a has given up.
func TestGate_MarksThatCouldNotBeDroppedRefuseNobodyAfterwards(t *testing.T) {
	server, now := redistest.Private(t), newClock()
	rdb := server.Client()
	defer rdb.Close()
	g := New(rdb, Config{Timeout: 2 * time.Second, Now: now.Now})
	take(t, g, 1, "warm", "A1", "A2")
	server.Pause()
	g.cfg.Timeout = 50 * time.Millisecond
	if _, err := g.Take(t.Context(), 1, []string{"F5"}, "a", time.Hour); !errors.Is(err, ErrAway) {
		t.Fatalf("got %v, want ErrAway", err)
	}
	for _, drop := range []struct{ hold, seat string }{{"a", "F5"}, {"warm", "A1"}} {
		if err := g.Drop(t.Context(), 1, []string{drop.seat}, drop.hold); !errors.Is(err, ErrAway) {
			t.Fatalf("drop: got %v, want ErrAway", err)
		}
	}
	server.Resume()
	g.cfg.Timeout = 20 * time.Second
	now.add(time.Second)
	want(t, "seats that nobody holds any more", take(t, g, 1, "b", "F5", "A1"), []string(nil))
	want(t, "marks", marks(t, rdb, 1, "F5", "A1", "A2"), map[string]string{"F5": "b", "A1": "b", "A2": "warm"})
	if n := g.owed.size(); n != 0 {
		t.Errorf("%d removals are still owed, want none", n)
	}
}

func TestGate_DropsThatRedisRefusesAreTriedASecondApartAndThenForgotten(t *testing.T) {
	rdb, now := redistest.Embedded(t), newClock()
	g := New(rdb, Config{Timeout: patient.Timeout, Now: now.Now})
	if err := rdb.LPush(t.Context(), "seat:{1}:F5", "no mark").Err(); err != nil {
		t.Fatal(err)
	}
	err := g.Drop(t.Context(), 1, []string{"F5"}, "a")
	if err == nil || errors.Is(err, ErrAway) {
		t.Fatalf("got %v, want what Redis said", err)
	}
	for i := range maxTries {
		if n := g.owed.size(); n != 1 {
			t.Fatalf("after %d tries %d removals owed, want 1", i, n)
		}
		take(t, g, 1, "b", "F6") // tries once
		take(t, g, 1, "b", "F6")
		now.add(pause)
	}
	if n := g.owed.size(); n != 0 {
		t.Errorf("%d removals owed in the end, want none", n)
	}
}

func TestGate_OwedDropsOfSeveralEventsAreMadeUpInOneRound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, first, second, other := New(rdb, patient), newEvent(), newEvent(), newEvent()
		for _, event := range []int64{first, second} {
			take(t, g, event, "a", "F5", "F6")
			take(t, g, event, "b", "F7")
		}
		for _, event := range []int64{first, second} {
			g.owed.add(debt{keys: g.seatKeys(event, []string{"F5", "F7"}), hold: "a"})
		}
		take(t, g, other, "c", "F5")
		for _, event := range []int64{first, second} {
			want(t, "marks", marks(t, rdb, event, "F5", "F6", "F7"), map[string]string{"F6": "a", "F7": "b"})
		}
		if n := g.owed.size(); n != 0 {
			t.Errorf("%d removals are still owed, want none", n)
		}
	})
}

func TestGate_RemembersABoundedNumberOfDrops(t *testing.T) {
	var l ledger
	for i := range maxOwed + 10 {
		l.add(debt{hold: fmt.Sprint(i)})
	}
	if l.size() != maxOwed || l.debts[0].hold != "10" {
		t.Errorf("%d removals owed, the first %s's; want %d, from 10's on", l.size(), l.debts[0].hold, maxOwed)
	}
	if n := len(l.due(time.Now())); n != perRound {
		t.Errorf("%d due in one round, want %d", n, perRound)
	}
}

func TestGate_ACallerWhoLeavesSaysNothingAboutRedis(t *testing.T) {
	rdb := redisbox.Client(deaf(t))
	defer rdb.Close()
	g := New(rdb, Config{Timeout: 20 * time.Second, Now: newClock().Now})
	gone, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := g.Take(gone, 1, []string{"F5"}, "a", time.Hour); err == nil {
		t.Fatal("a deaf Redis answered")
	}
	if _, ok := g.breaker(1).enter(g.cfg.Now()); !ok {
		t.Error("the gate counts Redis as away")
	}
}

func TestBreaker_OneSilenceAmongAnswersIsPassedOver(t *testing.T) {
	var b breaker
	now := time.Unix(1_000_000, 0)
	slow, _ := b.enter(now)
	quick, _ := b.enter(now)
	b.leave(quick, now.Add(time.Millisecond), answered)
	if b.leave(slow, now.Add(50*time.Millisecond), silent) {
		t.Error("went away although another call was answered meanwhile")
	}
	later, _ := b.enter(now.Add(time.Second))
	if !b.leave(later, now.Add(time.Second+50*time.Millisecond), silent) {
		t.Error("stayed although nobody was answered")
	}
}

func TestBreaker_OneCallTriesAndOthersDoNotWaitForIt(t *testing.T) {
	var b breaker
	now := time.Unix(1_000_000, 0)
	first, _ := b.enter(now)
	b.leave(first, now, silent)
	now = now.Add(pause)
	trial, ok := b.enter(now)
	if _, second := b.enter(now); !ok || second {
		t.Fatalf("entered %v and %v, want the first alone", ok, second)
	}
	b.leave(trial, now, unknown) // its caller left
	trial, ok = b.enter(now)
	if !ok {
		t.Fatal("nobody may try after a caller who left")
	}
	if !b.leave(trial, now, answered) {
		t.Error("not back although Redis answered")
	}
	for range 2 {
		if _, ok := b.enter(now); !ok {
			t.Error("refused although Redis is back")
		}
	}
}

func TestAllow_CountsOnThisNodeWhileRedisIsAway(t *testing.T) {
	rdb, now := redisbox.Client(deaf(t)), newClock()
	defer rdb.Close()
	g := New(rdb, Config{Timeout: 5 * time.Millisecond, Now: now.Now})
	for i := range 5 {
		if _, ok := g.Allow(t.Context(), 1, "an", 5); !ok {
			t.Fatalf("try %d was refused", i)
		}
	}
	retry, ok := g.Allow(t.Context(), 1, "an", 5)
	if ok || retry.Round(time.Millisecond) != 12*time.Second {
		t.Errorf("sixth: %v, %v; want 12s, false", retry, ok)
	}
	if n := testutil.ToFloat64(g.metrics.limited.WithLabelValues("node")); n != 1 {
		t.Errorf("%v counted as refused by this node, want 1", n)
	}
}

// breakingConn answers a script with the end of the connection, after Redis has worked it off.
type breakingConn struct {
	net.Conn
	armed *atomic.Bool
	hit   bool
}

func (c *breakingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("evalsha")) && c.armed.CompareAndSwap(true, false) {
		c.hit = true
	}
	return c.Conn.Write(b)
}

func (c *breakingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.hit && err == nil {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

// TestGate_LostAnswerIsNotAskedAgainByTheClient: a repeated Take would succeed, and a repeated try would count twice.
func TestGate_LostAnswerIsNotAskedAgainByTheClient(t *testing.T) {
	var armed atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &breakingConn{Conn: conn, armed: &armed}, err
	}
	clients := map[string]func() redis.UniversalClient{
		"redis": func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: redistest.Server(t).Addr(), MaxRetries: -1, Dialer: dial})
		},
		"cluster": func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.Cluster(t).Addrs(), MaxRetries: -1, MaxRedirects: 3, Dialer: dial})
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			rdb, now, event := client(), newClock(), newEvent()
			defer rdb.Close()
			g := New(rdb, Config{Timeout: patient.Timeout, Now: now.Now})
			take(t, g, event, "warm", "A1") // Redis knows the scripts now
			g.Allow(t.Context(), event, "warm", 1)

			armed.Store(true)
			if _, err := g.Take(t.Context(), event, []string{"F5"}, "a", time.Hour); !errors.Is(err, ErrAway) || armed.Load() {
				t.Errorf("got %v, want ErrAway; answer lost: %v", err, !armed.Load())
			}
			want(t, "marks", marks(t, rdb, event, "F5"), map[string]string{"F5": "a"})

			now.add(pause)
			armed.Store(true)
			_, first := g.Allow(t.Context(), event, "an", 2)
			now.add(pause)
			_, second := g.Allow(t.Context(), event, "an", 2)
			_, third := g.Allow(t.Context(), event, "an", 2)
			if armed.Load() || !first || !second || third {
				t.Errorf("tries passed %v %v %v, want two; answer lost: %v", first, second, third, !armed.Load())
			}
		})
	}
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
