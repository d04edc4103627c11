package stripe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	api "github.com/stripe/stripe-go/v84"
	"github.com/stripe/stripe-go/v84/webhook"

	"ropeline/booking/payment"
)

// Read takes a webhook. Refunded with no RefundID comes of charge.refunded: somebody gave money back in Stripe's dashboard,
// and Amount is all that the payment has given back so far.
func (p *Provider) Read(header http.Header, body []byte) (payment.Event, error) {
	event, err := p.genuine(header, body)
	if err != nil {
		return payment.Event{}, fmt.Errorf("stripe: %w: %w", payment.ErrNotGenuine, err)
	}
	e, err := translate(event)
	if err != nil {
		return payment.Event{}, fmt.Errorf("stripe: %w: event %s: %w", payment.ErrNotGenuine, event.ID, err)
	}
	e.ID, e.At = event.ID, time.Unix(event.Created, 0)
	noMoney := e.Kind == payment.Paid && (e.Amount <= 0 || e.Currency == "")
	if e.PaymentID == uuid.Nil || noMoney {
		e.Kind = payment.Ignored
	}
	return e, nil
}

// genuine verifies a webhook with each of the secrets. The members that are read here are the same in all versions of
// Stripe's API of the last years, so an endpoint may be of another version than the library.
func (p *Provider) genuine(header http.Header, body []byte) (event api.Event, err error) {
	options := webhook.ConstructEventOptions{Tolerance: webhook.DefaultTolerance, IgnoreAPIVersionMismatch: true}
	for _, secret := range p.cfg.WebhookSecrets {
		event, err = webhook.ConstructEventWithOptions(body, header.Get("Stripe-Signature"), secret, options)
		if err == nil {
			return event, nil
		}
	}
	return api.Event{}, err
}

// translate says what an event means to us, without its id and time.
func translate(event api.Event) (payment.Event, error) {
	if event.Data == nil {
		return payment.Event{Kind: payment.Ignored}, nil
	}
	switch event.Type {
	case api.EventTypeCheckoutSessionCompleted, api.EventTypeCheckoutSessionAsyncPaymentSucceeded:
		return fromSession(event.Data.Raw, "")
	case api.EventTypeCheckoutSessionAsyncPaymentFailed:
		return fromSession(event.Data.Raw, payment.Declined)
	case api.EventTypeCheckoutSessionExpired:
		return fromSession(event.Data.Raw, payment.Expired)
	case api.EventTypeRefundCreated, api.EventTypeRefundUpdated, api.EventTypeRefundFailed, api.EventTypeChargeRefundUpdated:
		return fromRefund(event.Data.Raw)
	case api.EventTypeChargeRefunded:
		return fromCharge(event)
	}
	return payment.Event{Kind: payment.Ignored}, nil
}

// fromSession reads a Checkout Session. kind is "" where the session itself says whether it is paid.
func fromSession(raw json.RawMessage, kind payment.Kind) (payment.Event, error) {
	var s api.CheckoutSession
	if err := json.Unmarshal(raw, &s); err != nil {
		return payment.Event{}, err
	}
	e := payment.Event{Kind: kind, PaymentID: ourID(s.ClientReferenceID)}
	if e.PaymentID == uuid.Nil {
		e.PaymentID = ourID(s.Metadata["payment_id"])
	}
	if s.PaymentIntent != nil {
		e.Charge = s.PaymentIntent.ID
	}
	if kind != "" {
		return e, nil
	}
	e.Kind = payment.Pending // of a slow payment method
	if s.PaymentStatus == api.CheckoutSessionPaymentStatusPaid {
		e.Kind = payment.Paid
		e.Amount, e.Currency = fromStripe(s.AmountTotal, string(s.Currency))
	}
	return e, nil
}

func fromRefund(raw json.RawMessage) (payment.Event, error) {
	var r api.Refund
	if err := json.Unmarshal(raw, &r); err != nil {
		return payment.Event{}, err
	}
	e := payment.Event{Kind: payment.Ignored, PaymentID: ourID(r.Metadata["payment_id"]), RefundID: ourID(r.Metadata["refund_id"])}
	e.Amount, e.Currency = fromStripe(r.Amount, string(r.Currency))
	if r.PaymentIntent != nil {
		e.Charge = r.PaymentIntent.ID
	}
	switch {
	case e.RefundID == uuid.Nil: // made by hand
	case r.Status == api.RefundStatusSucceeded:
		e.Kind = payment.Refunded
	case r.Status == api.RefundStatusFailed, r.Status == api.RefundStatusCanceled:
		e.Kind = payment.RefundFailed
	}
	return e, nil
}

// fromCharge reads a charge of which money went back. Stripe sends it also while a refund is under way. One that we asked
// for, with its id as the key of the call, is told by its own events and ignored here.
func fromCharge(event api.Event) (payment.Event, error) {
	var c api.Charge
	if err := json.Unmarshal(event.Data.Raw, &c); err != nil {
		return payment.Event{}, err
	}
	e := payment.Event{Kind: payment.Ignored, PaymentID: ourID(c.Metadata["payment_id"])}
	e.Amount, e.Currency = fromStripe(c.AmountRefunded, string(c.Currency))
	if c.PaymentIntent != nil {
		e.Charge = c.PaymentIntent.ID
	}
	if event.Request == nil || ourID(event.Request.IdempotencyKey) == uuid.Nil {
		e.Kind = payment.Refunded
	}
	return e, nil
}

// ourID is the payment or refund that bears this id, or none: other shops may share the account.
func ourID(s string) uuid.UUID {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.Nil
	}
	return id
}
