//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// hands are the seats as the customers see them: whose each is. A customer takes a hold out before asking to give it up, so
// that nobody else's luck is an error, however late an answer comes.
type hands struct {
	mu    sync.Mutex
	of    map[string]string // seat -> hold
	fault func(format string, args ...any)
}

func (h *hands) take(x held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, seat := range x.seats {
		if other, taken := h.of[seat]; taken && other != x.id {
			h.fault("seat %s is in two hands: %s and %s", seat, other, x.id)
		}
		h.of[seat] = x.id
	}
}

// drop returns false if they are in these hands no more.
func (h *hands) drop(x held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	there := false
	for _, seat := range x.seats {
		if h.of[seat] == x.id {
			there = true
			delete(h.of, seat)
		}
	}
	return there
}

func (h *hands) has(x held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[x.seats[0]] == x.id
}

// sale is a crowd of buyers at one event, and what they saw.
type sale struct {
	stand *stand
	event int
	keep  int // confirmed bookings that each buyer keeps
	think time.Duration
	nodes []string // addresses

	hands   hands
	ended   chan struct{}
	leavers chan leaver
	holds   atomic.Int64 // so far
	lastKey atomic.Value // the customer key that came last
	crowd   sync.WaitGroup
	stop    context.CancelFunc

	mu        sync.Mutex
	counts    map[string]int
	faults    []string
	confirmed map[string][]string // hold -> seats, which nobody has asked to cancel
}

// open lets buyers in.
func (s *stand) open(event, buyers, keep int, think time.Duration, nodes ...string) *sale {
	all := &sale{stand: s, event: event, keep: keep, think: think, nodes: nodes, ended: make(chan struct{}), leavers: make(chan leaver, 10_000),
		counts: map[string]int{}, confirmed: map[string][]string{}}
	all.hands = hands{of: map[string]string{}, fault: all.fault}
	ctx, cancel := context.WithCancel(s.t.Context())
	all.stop = cancel
	s.t.Cleanup(all.close)
	all.crowd.Go(func() { all.passTime(ctx) })
	for i := range buyers {
		b := all.newBuyer(fmt.Sprintf("b%d", i), uint64(i+1))
		all.crowd.Go(func() {
			for b.pause(all.think) {
				b.step()
			}
		})
	}
	return all
}

func (s *sale) newBuyer(name string, seed uint64) *buyer {
	c := newClient(s.stand.t)
	c.Timeout = longest + 5*time.Second
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &buyer{sale: s, c: c, rng: rand.New(rand.NewPCG(seed, 7)), name: name}
}

func (s *sale) address(rng *rand.Rand) string { return s.nodes[rng.IntN(len(s.nodes))] }

func (s *sale) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

func (s *sale) counted(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

// anyKey is some customer's key.
func (s *sale) anyKey() string {
	key, _ := s.lastKey.Load().(string)
	return key
}

// fault notes what must never happen.
func (s *sale) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *sale) left(l leaver) { s.leavers <- l }

func (s *sale) confirm(h held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed[h.id] = h.seats
}

func (s *sale) unconfirm(h held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.confirmed, h.id)
}

// close ends the sale and waits for what is under way. Only the first call counts.
func (s *sale) close() {
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
	s.stop()
	s.crowd.Wait()
}

// more waits until n more holds have come about.
func (s *sale) more(n int64) {
	s.stand.t.Helper()
	from := s.holds.Load()
	eventually(s.stand.t, fmt.Sprintf("%d more holds", n), func() bool { return s.holds.Load() >= from+n })
}

// check says what was counted, and fails the test on what buyers must not see. It is for after settle.
func (s *sale) check(t *testing.T) {
	t.Helper()
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		told = append(told, fmt.Sprintf("%s: %d", what, s.counts[what]))
	}
	t.Logf("buyers counted %s", strings.Join(told, ", "))
	for i, f := range s.faults {
		if i == 20 {
			t.Errorf("and %d faults more", len(s.faults)-i)
			break
		}
		t.Error(f)
	}
	kept := map[string]bool{}
	for _, id := range query[uuid.UUID](s.stand, `
SELECT b.booking_id
  FROM bk.booking b
 WHERE b.status = 'CONFIRMED'
   AND b.quantity = (SELECT count(*) FROM bk.seat s WHERE s.event_id = b.event_id AND s.seat_code = ANY (b.items) AND s.status = 'SOLD' AND s.booking_id = b.booking_id)`) {
		kept[id.String()] = true
	}
	for id, seats := range s.confirmed {
		if !kept[id] {
			t.Errorf("booking %s of %v was confirmed to its customer and is lost", id, seats)
		}
	}
	t.Logf("%d bookings are confirmed, customers have heard of %d", len(kept), len(s.confirmed))
	if len(s.confirmed) == 0 {
		t.Error("nobody has bought anything")
	}
}

func parseID(id string) uuid.UUID {
	u, _ := uuid.Parse(id) // the zero one is nobody's
	return u
}

func TestHands_TellADoubleSale(t *testing.T) {
	var faults []string
	h := hands{of: map[string]string{}, fault: func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }}
	first, second := held{"1", []string{"A1", "A2"}}, held{"2", []string{"A2", "A3"}}
	h.take(first)
	h.take(first)
	if h.drop(second) || len(faults) > 0 {
		t.Fatalf("before the second: %v", faults)
	}
	h.take(second)
	if len(faults) != 1 || !strings.Contains(faults[0], "A2") {
		t.Errorf("a seat in two hands: %v, want one fault about A2", faults)
	}
}
