package api

import (
	"context"
	"errors"
	"slices"

	"ropeline/booking"
)

// event is the one that the path names. A draft is nobody's business yet.
func (q *request) event() (*booking.Event, error) {
	id, err := q.eventID()
	if err != nil {
		return nil, err
	}
	e, err := q.api.core.Event(q.Context(), id)
	if err == nil && e.Status == "DRAFT" {
		err = booking.ErrNoEvent
	}
	return e, err
}

// admit decides who holds seats of the event: whom one of its rooms let in; without rooms whoever the client's newest key
// says, or somebody new, who gets a key at once.
func (q *request) admit(e *booking.Event) (booking.Admission, error) {
	q.identify()
	switch {
	case len(e.Rooms) > 0 && q.mayEnter(e):
		return q.admission, nil
	case len(e.Rooms) > 0:
		return booking.Admission{}, notAdmitted{room: e.Rooms[0]}
	case len(q.keyed) > 0:
		return booking.Admission{Customer: q.keyed[0]}, nil
	case q.isAdmitted: // by a room that doesn't lead here: it says who, and no more
		return booking.Admission{Customer: q.admission.Customer}, nil
	}
	made := booking.Admission{Customer: newCustomer()}
	q.giveKey(made.Customer)
	return made, nil
}

// mayEnter reports whether the client may touch holds of the event.
func (q *request) mayEnter(e *booking.Event) bool {
	return len(e.Rooms) == 0 || q.admitted() && slices.Contains(e.Rooms, q.admission.Room)
}

// ownHold is the hold that the path names, if it is the client's own and a room of its event let the client in. Who was not
// let in can't tell a hold that doesn't exist from another's.
func (q *request) ownHold(ctx context.Context) (booking.Booking, *booking.Event, error) {
	b, err := q.ownBooking(ctx)
	if errors.Is(err, booking.ErrNoBooking) && !q.admitted() {
		return b, nil, notAdmitted{}
	}
	if err != nil {
		return b, nil, err
	}
	e, err := q.api.core.Event(ctx, b.Event)
	if err != nil {
		return b, nil, err
	}
	if !q.mayEnter(e) {
		return b, nil, notAdmitted{room: e.Rooms[0]}
	}
	return b, e, nil
}

// ownBooking is the booking that the path names, if it is the client's own.
func (q *request) ownBooking(ctx context.Context) (booking.Booking, error) {
	id, err := q.bookingID()
	if err != nil {
		return booking.Booking{}, err
	}
	customers := q.customers()
	if len(customers) == 0 {
		return booking.Booking{}, booking.ErrNoBooking
	}
	return q.api.core.Booking(ctx, id, customers...)
}
