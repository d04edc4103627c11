package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	api "github.com/stripe/stripe-go/v84"

	"ropeline/booking/payment"
)

// Refund gives money back. Stripe forgets the key of a call after a day, so the refunds that the payment has are read first,
// and one that bears r.ID is the answer.
func (p *Provider) Refund(ctx context.Context, r payment.Refund) (payment.RefundState, error) {
	state, err := p.refund(ctx, r)
	if err != nil {
		return payment.RefundState{}, fmt.Errorf("stripe: refund %s of payment %s: %w", r.ID, r.PaymentID, err)
	}
	return state, nil
}

func (p *Provider) refund(ctx context.Context, r payment.Refund) (payment.RefundState, error) {
	amount, err := toStripe(r.Amount, r.Currency)
	if err != nil {
		return payment.RefundState{}, payment.NewPermanent(err)
	}
	charge, err := p.charge(ctx, r)
	if err != nil {
		return payment.RefundState{}, err
	}
	before, err := p.refunded(ctx, charge, r)
	if err != nil || before != nil {
		return stateOf(before, err)
	}
	params := &api.RefundCreateParams{
		Amount:   api.Int64(amount),
		Metadata: map[string]string{"refund_id": r.ID.String(), "payment_id": r.PaymentID.String()},
	}
	if isCharge(charge) {
		params.Charge = api.String(charge)
	} else {
		params.PaymentIntent = api.String(charge)
	}
	params.SetIdempotencyKey(r.ID.String())
	made, err := p.client.V1Refunds.Create(ctx, params)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.ErrorCodeChargeAlreadyRefunded {
		return payment.RefundState{Done: true}, nil // somebody gave all of it back by hand
	}
	if err != nil {
		return payment.RefundState{}, p.fault(err)
	}
	return stateOf(made, nil)
}

// charge is the payment intent (or the charge) that r is about.
func (p *Provider) charge(ctx context.Context, r payment.Refund) (string, error) {
	if r.Charge != "" {
		return r.Charge, nil
	}
	if r.Page != "" {
		session, err := p.client.V1CheckoutSessions.Retrieve(ctx, r.Page, nil)
		if err != nil {
			return "", p.fault(err)
		}
		if session.PaymentIntent == nil {
			return "", payment.NewPermanent(errors.New("nothing was paid in its session"))
		}
		return session.PaymentIntent.ID, nil
	}
	intent, err := p.intent(ctx, payment.Ref{PaymentID: r.PaymentID})
	if err != nil {
		return "", err
	}
	return intent.ID, nil
}

// refunded finds the refund that bears r's id, or nil.
func (p *Provider) refunded(ctx context.Context, charge string, r payment.Refund) (*api.Refund, error) {
	params := &api.RefundListParams{}
	params.Limit = api.Int64(100)
	if isCharge(charge) {
		params.Charge = api.String(charge)
	} else {
		params.PaymentIntent = api.String(charge)
	}
	for made, err := range p.client.V1Refunds.List(ctx, params) {
		if err != nil {
			return nil, p.fault(err)
		}
		if made.Metadata["refund_id"] == r.ID.String() {
			return made, nil
		}
	}
	return nil, nil
}

// isCharge tells a charge from a payment intent.
func isCharge(id string) bool { return strings.HasPrefix(id, "ch_") || strings.HasPrefix(id, "py_") }

// stateOf says how a refund of Stripe fares. One that failed is not tried again: the money is with us once more and has to
// find another way.
func stateOf(made *api.Refund, err error) (payment.RefundState, error) {
	if err != nil {
		return payment.RefundState{}, err
	}
	switch made.Status {
	case api.RefundStatusFailed, api.RefundStatusCanceled:
		return payment.RefundState{}, payment.NewPermanent(fmt.Errorf("%s %s %s", made.ID, made.Status, made.FailureReason))
	}
	return payment.RefundState{Ref: made.ID, Done: made.Status == api.RefundStatusSucceeded}, nil
}
