package gate

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"ropeline/internal/recent"
	"ropeline/internal/redisbox/redistest"
)

func TestAllow_LetsSoManyPassAndSaysWhenTheNextMay(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		for i := range 2 {
			if retry, ok := g.Allow(t.Context(), event, "an", 2); !ok || retry != 0 {
				t.Fatalf("try %d: %v, %v; want 0, true", i, retry, ok)
			}
		}
		for range 3 { // refused tries don't count
			if retry, ok := g.Allow(t.Context(), event, "an", 2); ok || retry <= 0 || retry > 30*time.Second {
				t.Fatalf("third try: %v, %v; want at most 30s, false", retry, ok)
			}
		}
		if _, ok := g.Allow(t.Context(), event, "binh", 2); !ok {
			t.Error("another customer was refused")
		}
		if _, ok := g.Allow(t.Context(), newEvent(), "an", 2); !ok {
			t.Error("refused at another event")
		}
		if _, ok := g.Allow(t.Context(), event, "an", 0); !ok {
			t.Error("refused without a limit")
		}
	})
}

func TestAllow_OfManyTriesAtOnceOnlyTheLimitPasses(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		if passed := race(40, func() bool { _, ok := g.Allow(t.Context(), event, "an", 1); return ok }); passed != 1 {
			t.Errorf("%d passed, want 1", passed)
		}
	})
}

func race(n int, try func() bool) int64 {
	var passed atomic.Int64
	var racers sync.WaitGroup
	for range n {
		racers.Go(func() {
			if try() {
				passed.Add(1)
			}
		})
	}
	racers.Wait()
	return passed.Load()
}

func TestNodeLimits_CountAsRedisDoes(t *testing.T) {
	n := nodeLimits{seen: recent.New[limitOf, *rate.Limiter](8)}
	now := time.Unix(1_000_000, 0)
	if passed := race(40, func() bool { _, ok := n.allow(now, limitOf{1, "an", 5}); return ok }); passed != 5 {
		t.Fatalf("%d passed at once, want 5", passed)
	}
	retry, ok := n.allow(now, limitOf{1, "an", 5})
	if ok || retry.Round(time.Millisecond) != 12*time.Second {
		t.Fatalf("sixth: %v, %v; want 12s, false", retry, ok)
	}
	if _, ok := n.allow(now.Add(11*time.Second), limitOf{1, "an", 5}); ok {
		t.Error("passed after 11s")
	}
	if _, ok := n.allow(now.Add(retry), limitOf{1, "an", 5}); !ok {
		t.Error("refused after the time that it was told to wait")
	}
	if _, ok := n.allow(now, limitOf{2, "an", 5}); !ok {
		t.Error("refused at another event")
	}
}

func TestNodeLimits_StayWithinTheirMemory(t *testing.T) {
	n := nodeLimits{seen: recent.New[limitOf, *rate.Limiter](8)}
	now := time.Unix(1_000_000, 0)
	for i := range 1000 {
		n.allow(now, limitOf{1, fmt.Sprint(i), 1})
	}
	kept := 0
	for i := range 1000 {
		if _, ok := n.seen.Get(limitOf{1, fmt.Sprint(i), 1}); ok {
			kept++
		}
	}
	if kept > 8 {
		t.Errorf("%d customers remembered, want at most 8", kept)
	}
}
