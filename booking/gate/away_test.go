package gate

import (
	"context"
	"errors"
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

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
