package gate

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeline/internal/redisbox/redistest"
)

// BenchmarkTake marks two seats on a real Redis, seats that are free and seats that another hold has, for a lone caller and
// for 256. p99_ms must stay well below the timeout of 50 ms, or the gate opens under load.
func BenchmarkTake(b *testing.B) {
	for _, callers := range []int{1, 256} {
		for _, free := range []bool{true, false} {
			b.Run(fmt.Sprintf("callers=%d/free=%v", callers, free), func(b *testing.B) {
				rdb := redistest.Server(b).Client()
				defer rdb.Close()
				g, event := New(rdb, patient), newEvent()
				take(b, g, event, "first", "A1", "A2")
				run(b, callers, func(i int64) error {
					seats := []string{"A1", "A2"}
					if free {
						seats = []string{fmt.Sprint("F", i), fmt.Sprint("G", i)}
					}
					taken, err := g.Take(b.Context(), event, seats, fmt.Sprint("hold", i), time.Minute)
					if err == nil && free != (taken == nil) {
						err = fmt.Errorf("free %v, taken %v", free, taken)
					}
					return err
				})
			})
		}
	}
}

// BenchmarkAllow counts tries of a customer each on a real Redis and, as without one, on this node.
func BenchmarkAllow(b *testing.B) {
	b.Run("redis", func(b *testing.B) {
		rdb := redistest.Server(b).Client()
		defer rdb.Close()
		g, event := New(rdb, patient), newEvent()
		run(b, 256, func(i int64) error {
			g.Allow(b.Context(), event, fmt.Sprint(i), 5)
			return nil
		})
	})
	b.Run("node", func(b *testing.B) {
		g, now := New(redistest.Embedded(b), patient), time.Now()
		run(b, 256, func(i int64) error {
			g.local.allow(now, limitOf{1, fmt.Sprint(i), 5})
			return nil
		})
	})
}

// run does b.N calls from so many callers and reports calls a second and how long the slowest hundredth takes.
func run(b *testing.B, callers int, call func(i int64) error) {
	var next atomic.Int64
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99_ms")
}
