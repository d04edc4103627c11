package api

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"ropeline/booking"
)

// showBooking answers with a customer's own booking, whatever became of it.
func (a *API) showBooking(q *request) error {
	b, err := q.ownBooking(q.Context())
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, bookingOf(b, q.words))
}

// cancel gives a booking back: a hold is released, a confirmed one is refunded.
func (a *API) cancel(q *request) error {
	b, err := q.ownBooking(q.Context())
	if err != nil {
		return err
	}
	if _, err := q.key(); err != nil { // nothing to do with it: a booking is cancelled once
		return err
	}
	m, err := q.members()
	if err != nil {
		return err
	}
	if err := m.customerIs(q.customers()...); err != nil {
		return err
	}
	if b, err = a.core.Cancel(q.Context(), b.ID, b.Customer); err != nil {
		return err
	}
	return q.send(http.StatusOK, bookingOf(b, q.words))
}

// confirm is for a service that heard of a payment before us: the core asks the provider itself what became of it.
func (a *API) confirm(q *request) error {
	if err := a.serves(q); err != nil {
		return err
	}
	id, err := q.bookingID()
	if err != nil {
		return err
	}
	if _, err := q.key(); err != nil { // nothing to do with it: a payment counts once
		return err
	}
	m, err := q.members()
	if err != nil {
		return err
	}
	said, err := m.text("paymentId")
	if err != nil {
		return err
	}
	paid, ok := parseUUID(said)
	if !ok {
		return refusal{code: "invalid", detail: "paymentId must be the id of a payment."}
	}
	b, outcome, err := a.core.Confirm(q.Context(), id, paid)
	if err != nil {
		return err
	}
	if b.Status != booking.Confirmed {
		return notConfirmed(b, paid, outcome)
	}
	body := bookingOf(b, q.words)
	body.Outcome = outcome
	return q.send(http.StatusOK, body)
}

// notConfirmed says why a payment that was looked at did not confirm its booking.
func notConfirmed(b booking.Booking, paid uuid.UUID, o booking.Outcome) error {
	status := ""
	for _, p := range b.Payments {
		if p.ID == paid {
			status = p.Status
		}
	}
	switch {
	case o == booking.OutcomeMismatch:
		return refusal{code: "amount-mismatch", detail: "The money goes back."}
	case status == "PENDING":
		return refusal{code: "not-paid", detail: "The payment is still open."}
	case status == "DECLINED" || status == "EXPIRED":
		return refusal{code: "not-paid", detail: "The payment came to nothing."}
	}
	return refusal{code: "hold-gone", detail: "The money goes back."}
}

// serves checks the service token. Without a configured one nobody knows it.
func (a *API) serves(q *request) error {
	if a.cfg.ServiceToken == "" {
		return refusal{code: "service-only"}
	}
	scheme, said, _ := strings.Cut(q.Header.Get("Authorization"), " ")
	got := digest(strings.TrimSpace(said))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], a.service[:]) != 1 {
		return refusal{code: "unauthorized", detail: "The service token is missing or wrong."}
	}
	return nil
}
