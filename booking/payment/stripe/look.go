package stripe

import (
	"context"
	"fmt"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"ropeline/booking/payment"
)

// Look asks Stripe for the session, or where no session is known for the payment intent: by its own id or by the payment id
// in its metadata. Stripe's search sees a new intent after a minute or so. A session whose answer was lost has nobody who
// could pay on it, because nobody knows its address; of it Look says [payment.ErrUnknown].
func (p *Provider) Look(ctx context.Context, ref payment.Ref) (payment.Event, error) {
	if ref.Page == "" {
		intent, err := p.intent(ctx, ref)
		if err != nil {
			return payment.Event{}, fmt.Errorf("stripe: look at payment %s: %w", ref.PaymentID, err)
		}
		return answer(ref, ofIntent(intent), intent), nil
	}
	params := &api.CheckoutSessionRetrieveParams{}
	params.AddExpand("payment_intent.latest_charge")
	session, err := p.client.V1CheckoutSessions.Retrieve(ctx, ref.Page, params)
	if err != nil {
		return payment.Event{}, fmt.Errorf("stripe: look at payment %s: %w", ref.PaymentID, p.fault(err))
	}
	e := answer(ref, ofSession(session), session.PaymentIntent)
	if e.Kind == payment.Paid {
		e.Amount, e.Currency = fromStripe(session.AmountTotal, string(session.Currency))
	}
	if e.At.IsZero() {
		e.At = time.Unix(session.Created, 0)
	}
	return e, nil
}

// answer is the event of what Look found. intent may be nil.
func answer(ref payment.Ref, kind payment.Kind, intent *api.PaymentIntent) payment.Event {
	e := payment.Event{ID: payment.LookID(ref.PaymentID, kind), Kind: kind, PaymentID: ref.PaymentID, Charge: ref.Charge}
	if intent == nil {
		return e
	}
	e.Charge = intent.ID
	if intent.Created > 0 { // it is no mere id
		e.At = time.Unix(intent.Created, 0)
	}
	if intent.LatestCharge != nil && intent.LatestCharge.Created > 0 {
		e.At = time.Unix(intent.LatestCharge.Created, 0)
	}
	if kind == payment.Paid {
		e.Amount, e.Currency = fromStripe(intent.AmountReceived, string(intent.Currency))
	}
	return e
}

// ofSession is what a session says of its payment. A complete one may wait for a slow payment method.
func ofSession(s *api.CheckoutSession) payment.Kind {
	switch {
	case s.PaymentStatus == api.CheckoutSessionPaymentStatusPaid:
		return payment.Paid
	case s.Status == api.CheckoutSessionStatusExpired:
		return payment.Expired
	case s.Status == api.CheckoutSessionStatusComplete && s.PaymentIntent != nil && s.PaymentIntent.Status != "":
		return ofIntent(s.PaymentIntent)
	}
	return payment.Pending
}

// ofIntent is what an intent says whose session is complete, or not known.
func ofIntent(i *api.PaymentIntent) payment.Kind {
	switch i.Status {
	case api.PaymentIntentStatusSucceeded:
		return payment.Paid
	case api.PaymentIntentStatusCanceled:
		return payment.Expired
	case api.PaymentIntentStatusRequiresPaymentMethod:
		return payment.Declined
	}
	return payment.Pending
}

// intent finds the payment intent of a payment whose session is not known.
func (p *Provider) intent(ctx context.Context, ref payment.Ref) (*api.PaymentIntent, error) {
	if ref.Charge != "" {
		params := &api.PaymentIntentRetrieveParams{}
		params.AddExpand("latest_charge")
		intent, err := p.client.V1PaymentIntents.Retrieve(ctx, ref.Charge, params)
		if err != nil {
			return nil, p.fault(err)
		}
		return intent, nil
	}
	params := &api.PaymentIntentSearchParams{}
	params.Query = fmt.Sprintf("metadata['payment_id']:'%s'", ref.PaymentID)
	params.AddExpand("data.latest_charge")
	var found *api.PaymentIntent
	for intent, err := range p.client.V1PaymentIntents.Search(ctx, params) {
		if err != nil {
			return nil, p.fault(err)
		}
		if found == nil || intent.Status == api.PaymentIntentStatusSucceeded {
			found = intent
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no session and no intent: %w", payment.ErrUnknown)
	}
	return found, nil
}
