package crowd

import (
	"fmt"
	"time"
)

// Sales is what a crowd's buyers did, by what they were told. Seats are counted at the end.
type Sales struct {
	Sold       int `json:"sold"`       // seats that were paid for and not given back
	Held       int `json:"held"`       // seats in holds whose time was not up
	Refunded   int `json:"refunded"`   // payments that are back: too many, too late, or for seats that were given back
	DoubleSold int `json:"doubleSold"` // seats in two hands at once; 0 in a correct shop

	Holds     int     `json:"holds"`     // given out, swaps among them
	Taken     int     `json:"taken"`     // asked for, and refused with 409
	Swapped   int     `json:"swapped"`   // a hold for another one
	Released  int     `json:"released"`  // holds given back
	Bookings  int     `json:"bookings"`  // confirmed
	Cancelled int     `json:"cancelled"` // of those, given back
	Declined  int     `json:"declined"`  // payments
	Late      int     `json:"late"`      // payments that came after the seats were gone
	SoldOut   int     `json:"soldOut"`   // buyers who found no free seat
	TooSlow   int     `json:"tooSlow"`   // buyers whom others were faster than, each time
	Unsettled int     `json:"unsettled"` // payments of which neither seats nor a refund were seen in time
	Shop      Latency `json:"shop"`      // answers of the booking API

	Audited  bool     `json:"audited"`            // somebody asked the shop's own auditor; a crowd can't
	Findings []string `json:"findings,omitempty"` // what it said
}

// sales sums up.
func (c *crowd) sales(now time.Time) *Sales {
	t := &c.tally
	s := &Sales{
		DoubleSold: c.hands.doubles().count, Refunded: int(t.refunded.Load()),
		Holds: int(t.holds.Load()), Taken: int(t.taken.Load()), Swapped: int(t.swaps.Load()), Released: int(t.released.Load()),
		Bookings: int(t.confirmed.Load()), Cancelled: int(t.cancelled.Load()), Declined: int(t.declined.Load()),
		Late: int(t.late.Load()), SoldOut: int(t.soldOut.Load()), TooSlow: int(t.tooSlow.Load()),
		Unsettled: int(t.unsettled.Load()), Shop: c.shopTimes.sum(),
	}
	s.Sold, s.Held = c.hands.count(now)
	return s
}

// broken names what must not be.
func (s *Sales) broken() (all []string) {
	if s.DoubleSold > 0 {
		all = append(all, fmt.Sprintf("double-sold: %d", s.DoubleSold))
	}
	if len(s.Findings) > 0 {
		all = append(all, fmt.Sprintf("audit: %d", len(s.Findings)))
	}
	return all
}

func (s *Sales) write(p *printer) {
	p.line("sold", s.Sold)
	p.line("held", s.Held)
	p.line("refunded", s.Refunded)
	p.line("double-sold", s.DoubleSold)
	if s.Audited {
		if len(s.Findings) == 0 {
			p.line("audit", "clean")
		}
		for _, f := range s.Findings {
			p.line("audit", f)
		}
	}
	p.line("holds", s.Holds)
	p.line("holds refused", s.Taken)
	p.line("swapped", s.Swapped)
	p.line("released", s.Released)
	p.line("bookings", s.Bookings)
	p.line("cancelled", s.Cancelled)
	p.line("payments declined", s.Declined)
	p.line("payments too late", s.Late)
	p.line("payments unsettled", s.Unsettled)
	p.line("found it sold out", s.SoldOut)
	p.line("were too slow", s.TooSlow)
	p.latency("shop", s.Shop)
}
