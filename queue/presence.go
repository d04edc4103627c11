package queue

import (
	"context"
	"sync"
	"time"
)

// Presence: a visitor's bit in a window's bitmap says that the visitor may still be counted on during that window. A
// poll sets it for every window that its patience reaches into, so an admitter needs only the window of the moment.
const (
	windowMillis     = 30_000
	flushGraceMillis = 5_000 // no node is later than that with its flush
	leastPatience    = 90 * time.Second
	mostPatience     = time.Hour
)

// patience is how long after a poll a visitor that was told to come back after pollAfter still counts as present:
// hidden tabs wake once a minute.
func patience(pollAfter time.Duration) time.Duration {
	return min(max(leastPatience, 3*pollAfter), mostPatience)
}

type windowKey struct{ generation, window int64 }

// window is one bitmap as this node knows it: what it has marked, and what Redis has not been told yet.
type window struct {
	marked  []uint64
	pending []int64
}

// presence collects marks and hands them to Redis once per flush. A mark costs no Redis call.
type presence struct {
	mu      sync.Mutex
	windows map[windowKey]*window
}

func (p *presence) mark(place Place, now time.Time, lasting time.Duration) {
	first, last := now.UnixMilli()/windowMillis, now.Add(lasting).UnixMilli()/windowMillis
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.windows == nil {
		p.windows = map[windowKey]*window{}
	}
	for at := first; at <= last; at++ {
		key := windowKey{place.Generation, at}
		w := p.windows[key]
		if w == nil {
			w = &window{}
			p.windows[key] = w
		}
		w.mark(place.Number)
	}
}

func (w *window) mark(number int64) {
	word, bit := int(number/64), uint64(1)<<(number%64)
	for word >= len(w.marked) {
		w.marked = append(w.marked, make([]uint64, word+1-len(w.marked)+len(w.marked)/4)...)
	}
	if w.marked[word]&bit == 0 {
		w.marked[word] |= bit
		w.pending = append(w.pending, number)
	}
}

// take returns what Redis has not been told, and forgets windows that are over.
func (p *presence) take(now time.Time) map[windowKey][]int64 {
	current := now.UnixMilli() / windowMillis
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[windowKey][]int64{}
	for key, w := range p.windows {
		switch {
		case key.window < current:
			delete(p.windows, key)
		case len(w.pending) > 0:
			out[key] = w.pending
			w.pending = nil
		}
	}
	return out
}

// again forgets what Redis has been told: it may have lost it. Everything that is marked from now on is told anew.
func (p *presence) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.windows {
		w.marked = nil
	}
}

// giveBack puts marks that Redis did not take in front of the next flush.
func (p *presence) giveBack(key windowKey, numbers []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.windows[key]; w != nil {
		w.pending = append(w.pending, numbers...)
	}
}

// flush merges this node's marks into Redis, in chunks that block it for well under a millisecond.
func (l *Line) flush(ctx context.Context) error {
	const chunk = 1000
	var first error
	for key, numbers := range l.presence.take(l.clock.Now()) {
		ends := (key.window+1)*windowMillis + windowMillis
		for len(numbers) > 0 && first == nil {
			n := min(chunk, len(numbers))
			args := make([]any, 0, n+1)
			args = append(args, ends)
			for _, number := range numbers[:n] {
				args = append(args, number)
			}
			if first = l.call(ctx, "here", hereScript, []string{l.k.here(key.generation, key.window)}, args...).Err(); first == nil {
				numbers = numbers[n:]
			}
		}
		if len(numbers) > 0 {
			l.presence.giveBack(key, numbers)
		}
	}
	return first
}
