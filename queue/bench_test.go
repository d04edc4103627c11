package queue

import (
	"sync"
	"sync/atomic"
	"testing"

	"ropeline/internal/redisbox/redistest"
)

// BenchmarkPoll is a waiting visitor's poll without HTTP: no Redis call, and nothing on the heap.
func BenchmarkPoll(b *testing.B) {
	l := New(redistest.Embedded(b), roomName(), Config{})
	l.read.Store(1 << 62)
	l.adopt(1)
	l.shown.reset(1)
	s := &Snapshot{Generation: 1, Mode: Open, Rate: 100, Limit: 5000, Waiting: 2_000_000}
	for i := range denseMarks + sparseMarks {
		rank := max(i, i*s.Waiting/(denseMarks+sparseMarks))
		s.Marks = append(s.Marks, Mark{Rank: rank, Score: 1<<numberBits + int64(rank) + 1})
	}
	l.snapshot.Store(s)
	p := Place{ID: NewID(), Generation: 1, Number: 1_234_567}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := l.Poll(b.Context(), p); err != nil || r.State != Waiting {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkJoin joins from 256 callers on a real Redis: in batches, and as the floor one script each. The ratio is what
// batching brings.
func BenchmarkJoin(b *testing.B) {
	for _, bench := range []struct {
		name  string
		batch int
	}{{"batches", 0}, {"one_script_each", 1}} {
		b.Run(bench.name, func(b *testing.B) {
			l := New(redistest.Server(b).Client(), roomName(), Config{Batch: bench.batch})
			if err := l.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			l.read.Store(1 << 62)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for range 256 {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := l.Join(b.Context(), Visitor{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "joins/s")
		})
	}
}
