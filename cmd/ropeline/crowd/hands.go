package crowd

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// hands is who has which seat, as the buyers of the crowd were told. Safe for concurrent use.
//
// A hold is taken to last from when its buyer heard of it until its time is up, counted from before it was asked for; it
// ends when its buyer asks for its end, whatever comes of it. So two hands on one seat at once are never an illusion.
type hands struct {
	mu     sync.Mutex
	seats  map[string]grip
	double finding
}

type grip struct {
	booking string
	until   time.Time // of a hold
	sold    bool
}

func (g grip) live(now time.Time) bool { return g.sold || now.Before(g.until) }

// take notes that a booking has seats: until a moment, or for good.
func (h *hands) take(booking string, seats []string, until time.Time, sold bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seats == nil {
		h.seats = map[string]grip{}
	}
	for _, s := range seats {
		if old, ok := h.seats[s]; ok && old.booking != booking && old.live(now) {
			h.double.add(fmt.Sprintf("seat %s of booking %s and of booking %s", s, old.booking, booking))
		}
		h.seats[s] = grip{booking, until, sold}
	}
}

// give notes that a booking may have its seats no longer.
func (h *hands) give(booking string, seats []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range seats {
		if h.seats[s].booking == booking {
			delete(h.seats, s)
		}
	}
}

// count returns the seats that are sold, and held at a moment.
func (h *hands) count(now time.Time) (sold, held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.seats {
		switch {
		case g.sold:
			sold++
		case g.live(now):
			held++
		}
	}
	return sold, held
}

func (h *hands) doubles() finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	return finding{h.double.count, slices.Clone(h.double.examples)}
}
