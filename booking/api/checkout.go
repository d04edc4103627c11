package api

import (
	"net/http"
	"net/url"

	"ropeline/booking"
)

// checkout opens a page to pay for a hold.
func (a *API) checkout(q *request) error {
	b, e, err := q.ownHold(q.Context())
	if err != nil {
		return err
	}
	ask := booking.CheckoutRequest{Hold: b.ID}
	if len(e.Rooms) > 0 {
		ask.Admission = q.admission
	}
	ask.Customer = b.Customer // of several keys the one that holds
	if ask.Key, err = q.key(); err != nil {
		return err
	}
	if ask.Key == "" {
		return booking.ErrKeyMissing
	}
	m, err := q.members()
	if err != nil {
		return err
	}
	if err := m.customerIs(q.customers()...); err != nil {
		return err
	}
	if ask.ReturnURL, err = m.returnURL(); err != nil {
		return err
	}
	c, err := a.core.Checkout(q.Context(), ask)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if c.Replayed {
		q.w.Header().Set("Idempotent-Replayed", "true")
		status = http.StatusOK
	}
	return q.send(status, checkoutOf(c))
}

// returnURL reads where the payment page sends the customer: an absolute address of the web, or nowhere.
func (m members) returnURL() (string, error) {
	s, err := m.text("returnUrl")
	if err != nil || s == "" {
		return "", err
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > 2000 || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return "", refusal{code: "invalid", detail: "returnUrl must be an absolute http or https address."}
	}
	return s, nil
}
