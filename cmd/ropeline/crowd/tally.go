package crowd

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts as the crowd goes, for the progress line and the report. Safe for concurrent use.
type tally struct {
	joined, waiting, admitted, atOnce, inside, ended, left, gaveUp, lost, cameBack atomic.Int64

	pages, refused, passed, turned, worse atomic.Int64
	notNow, networkErrors, unexpected     atomic.Int64

	holds, taken, soldOut, tooSlow, swaps, released, declined atomic.Int64
	confirmed, late, cancelled, refunded, unsettled           atomic.Int64
}

// passedWithoutToken records that a went past the gate.
func (c *crowd) passedWithoutToken(a answer, how string) {
	c.tally.passed.Add(1)
	c.note(fmt.Sprintf("passed without a token: %s: %d", how, a.status))
}

// unexpected records an answer that the queue API does not give there. It breaks no promise by itself.
func (c *crowd) unexpected(what string, a answer) {
	c.tally.unexpected.Add(1)
	c.note(fmt.Sprintf("unexpected answer to %s: %d %s %s", what, a.status, a.state(), readProblem(a.body).Type))
}

func (c *crowd) note(s string) { c.notes.add(s) }

// notes keeps the first few different remarks and how often each was made. The zero value is empty.
type notes struct {
	mu   sync.Mutex
	made map[string]int
}

// maxNotes is how many different remarks are kept.
const maxNotes = 12

func (n *notes) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made == nil {
		n.made = make(map[string]int)
	}
	if _, known := n.made[s]; known || len(n.made) < maxNotes {
		n.made[s]++
	}
}

func (n *notes) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for _, s := range slices.Sorted(maps.Keys(n.made)) {
		lines = append(lines, fmt.Sprintf("%s (%d times)", s, n.made[s]))
	}
	return lines
}

// latency is a histogram of response times, 1 us to 10 min with three digits. It counts from when a visitor
// wanted an answer, so waiting for one of the crowd's own connections is part of it. A nil latency records
// nothing. Safe for concurrent use.
type latency struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // us
}

func newLatency() *latency {
	return &latency{h: hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)}
}

func (l *latency) record(d time.Duration) {
	if l == nil {
		return
	}
	us := min(max(d.Microseconds(), 1), (10 * time.Minute).Microseconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.h.RecordValue(us) // only a value out of range is refused
}

// Latency sums up response times, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50Ms"`
	P99   float64 `json:"p99Ms"`
	Max   float64 `json:"maxMs"`
}

func (l *latency) sum() Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Latency{
		Count: l.h.TotalCount(),
		P50:   ms(l.h.ValueAtQuantile(50)),
		P99:   ms(l.h.ValueAtQuantile(99)),
		Max:   ms(l.h.Max()),
	}
}
