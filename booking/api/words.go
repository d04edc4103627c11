package api

import "ropeline/booking"

// words are how an answer calls things. Older clients say showtime and order, BOOKED for a seat that is sold, and PENDING and
// PAID for a booking that is held and confirmed.
type words struct {
	event, booking string // "event" and "booking", or "showtime" and "order"; "" = the former
	older          bool
}

func (w words) eventWord() string { return firstOf(w.event, "event") }

// status is how a booking's status is called.
func (w words) status(s booking.Status) string {
	switch {
	case w.older && s == booking.Held:
		return "PENDING"
	case w.older && s == booking.Confirmed:
		return "PAID"
	}
	return string(s)
}
