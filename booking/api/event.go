package api

import (
	"net/http"
	"time"

	"ropeline/booking"
)

type priceBody struct {
	Tier       string        `json:"tier"`
	TicketType string        `json:"ticketType"`
	Price      booking.Money `json:"price"`
}

type limitsBody struct {
	MaxSeats       int `json:"maxSeats"`                 // of one hold
	CustomerSeats  int `json:"customerSeats,omitempty"`  // of one customer, held and bought; none: as many as there are
	HoldsPerMinute int `json:"holdsPerMinute,omitempty"` // of one customer
}

type eventBody struct {
	EventID         int64       `json:"eventId"`
	Kind            string      `json:"kind"`
	Name            string      `json:"name"`
	StartsAt        time.Time   `json:"startsAt"`
	TimeZone        string      `json:"timeZone"`
	Status          string      `json:"status"`
	SalesOpenAt     *time.Time  `json:"salesOpenAt,omitempty"`
	SalesCloseAt    *time.Time  `json:"salesCloseAt,omitempty"`
	Prices          []priceBody `json:"prices"`
	Limits          limitsBody  `json:"limits"`
	HoldSeconds     int64       `json:"holdSeconds"`     // how long a hold lasts
	CheckoutSeconds int64       `json:"checkoutSeconds"` // how long its payment page is open at most
	MaxHoldSeconds  int64       `json:"maxHoldSeconds"`  // how old a hold gets by extending and swapping
	Rooms           []string    `json:"rooms"`           // waiting rooms that lead to it; empty: none is needed
	ServerTime      time.Time   `json:"serverTime"`
}

// showEvent answers with what is on sale and how. A person who opens it is sent to the page, which may be behind the room.
func (a *API) showEvent(q *request) error {
	q.w.Header().Set("Vary", "Accept, Sec-Fetch-Mode")
	if q.wantsPage() {
		q.w.Header().Set("Location", "/"+q.words.eventWord()+"s/"+q.arg+"/")
		q.w.Header().Set("Cache-Control", "no-store")
		q.w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	e, err := q.event()
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, eventOf(e, a.cfg.Now()))
}

func eventOf(e *booking.Event, now time.Time) eventBody {
	body := eventBody{
		EventID: e.ID, Kind: e.Kind, Name: e.Name, StartsAt: instant(e.StartsAt), TimeZone: e.Zone, Status: e.Status,
		SalesOpenAt: optional(e.OpensAt), SalesCloseAt: optional(e.ClosesAt), Prices: []priceBody{},
		Limits:      limitsBody{MaxSeats: e.MaxSeats, CustomerSeats: e.CustomerCap, HoldsPerMinute: e.HoldsPerMin},
		HoldSeconds: seconds(e.HoldTTL), CheckoutSeconds: seconds(e.CheckoutTTL), MaxHoldSeconds: seconds(e.MaxHoldAge),
		Rooms: append([]string{}, e.Rooms...), ServerTime: instant(now),
	}
	for _, p := range e.Prices {
		body.Prices = append(body.Prices, priceBody{p.Tier, p.TicketType, booking.Money{Amount: p.Amount, Currency: e.Currency}})
	}
	return body
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = instant(t)
	return &t
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
