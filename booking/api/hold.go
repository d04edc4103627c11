package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ropeline/booking"
)

// hold takes all of some seats or none.
func (a *API) hold(q *request) error {
	e, err := q.event()
	if err != nil {
		if errors.Is(err, booking.ErrNoEvent) && !q.admitted() {
			return notAdmitted{}
		}
		return err
	}
	who, err := q.admit(e)
	if err != nil {
		return err
	}
	ask, err := q.holdRequest(e, who)
	if err != nil {
		return err
	}
	b, replayed, err := a.core.Hold(q.Context(), ask)
	if errors.Is(err, booking.ErrNotOnSale) {
		return refusal{code: "not-on-sale", detail: notOnSale(e, time.Now())}
	}
	if err != nil {
		return err
	}
	q.giveKey(b.Customer)
	h := q.w.Header()
	h.Set("Location", q.base+"/holds/"+b.ID.String())
	if replayed {
		h.Set("Idempotent-Replayed", "true")
		return q.send(http.StatusOK, holdOf(b))
	}
	return q.send(http.StatusCreated, holdOf(b))
}

// notOnSale says why nothing of an event can be held now.
func notOnSale(e *booking.Event, now time.Time) string {
	switch {
	case e.Status == "PAUSED":
		return "The sale is paused. Try again later."
	case e.Status == "CANCELLED":
		return "The event is cancelled."
	case e.Status == "ON_SALE" && now.Before(e.OpensAt):
		return "The sale opens at " + e.OpensAt.UTC().Format(time.RFC3339) + "."
	}
	return "The sale is over."
}

// holdRequest reads what is asked for.
func (q *request) holdRequest(e *booking.Event, who booking.Admission) (booking.HoldRequest, error) {
	ask := booking.HoldRequest{Admission: who, Event: e.ID}
	var err error
	if ask.Key, err = q.key(); err != nil {
		return ask, err
	}
	m, err := q.members()
	if err != nil {
		return ask, err
	}
	if err := m.customerIs(who.Customer); err != nil {
		return ask, err
	}
	for _, other := range []string{"areas", "bestAvailable"} {
		if m.has(other) {
			return ask, refusal{code: "invalid", detail: other + " is not sold here: name the seats."}
		}
	}
	if ask.Choices, err = m.choices(e.MaxSeats); err != nil {
		return ask, err
	}
	replaces, err := m.text("replaces")
	if err != nil || replaces == "" {
		return ask, err
	}
	var ok bool
	if ask.Replaces, ok = parseUUID(replaces); !ok || ask.Replaces == uuid.Nil {
		return ask, refusal{code: "invalid", detail: "replaces must be the id of a hold."}
	}
	return ask, nil
}

// choices reads the seats: codes, or objects with a seat and its ticketType.
func (m members) choices(most int) ([]booking.Choice, error) {
	var raw []json.RawMessage
	if !m.has("seats") || json.Unmarshal(m["seats"], &raw) != nil || len(raw) == 0 {
		return nil, refusal{code: "invalid", detail: `seats must be a list of one seat or more, like ["F5","F6"].`}
	}
	if len(raw) > most {
		return nil, refusal{code: "invalid", detail: fmt.Sprintf("Max %d seats", most)}
	}
	seen := map[string]bool{}
	var all []booking.Choice
	for _, one := range raw {
		c, ok := choice(one)
		switch {
		case !ok || !plainSegment(c.Seat) || len(c.Seat) > 32 || len(c.TicketType) > 64:
			return nil, refusal{code: "invalid", detail: "A seat is its code, or an object with seat and ticketType."}
		case seen[c.Seat]:
			return nil, refusal{code: "invalid", detail: "Seat " + c.Seat + " is asked for twice."}
		}
		seen[c.Seat] = true
		all = append(all, c)
	}
	return all, nil
}

func choice(raw json.RawMessage) (booking.Choice, bool) {
	var code string
	if json.Unmarshal(raw, &code) == nil {
		return booking.Choice{Seat: code}, true
	}
	var m members
	if json.Unmarshal(raw, &m) != nil {
		return booking.Choice{}, false
	}
	seat, err1 := m.text("seat")
	kind, err2 := m.text("ticketType")
	return booking.Choice{Seat: seat, TicketType: kind}, err1 == nil && err2 == nil
}

// showHold answers with a hold as it is now.
func (a *API) showHold(q *request) error {
	b, _, err := q.ownHold(q.Context())
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, holdOf(b))
}

// extend gives a hold more time.
func (a *API) extend(q *request) error {
	key, b, err := q.change()
	if err != nil {
		return err
	}
	if b, err = a.core.Extend(q.Context(), b.ID, key, b.Customer); err != nil {
		return err
	}
	return q.send(http.StatusOK, holdOf(b))
}

// change reads what the POSTs to a hold have in common: the key, the hold, and a body that may say whose it is.
func (q *request) change() (key string, b booking.Booking, err error) {
	if b, _, err = q.ownHold(q.Context()); err != nil {
		return "", b, err
	}
	if key, err = q.key(); err != nil {
		return "", b, err
	}
	m, err := q.members()
	if err != nil {
		return "", b, err
	}
	return key, b, m.customerIs(q.customers()...)
}

// release gives the seats back at once.
func (a *API) release(q *request) error {
	b, _, err := q.ownHold(q.Context())
	if err != nil {
		return err
	}
	if err := a.core.Release(q.Context(), b.ID, b.Customer); err != nil {
		return err
	}
	q.w.Header().Set("Cache-Control", "no-store")
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
