package booking

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ropeline/booking/payment"
)

// Callback takes what a provider tells by itself: header and body as they came. booking is the one that it is about, zero if
// that is not known. It returns [ErrBadCallback], [ErrUnknownPayment] (nothing was recorded: the provider should call again),
// [ErrNoProvider], [ErrBusy] or [ErrAway].
func (c *Core) Callback(ctx context.Context, provider string, header http.Header, body []byte) (o Outcome, booking uuid.UUID, err error) {
	p := c.provider(provider)
	if p == nil {
		return "", uuid.Nil, ErrNoProvider
	}
	ev, err := p.Read(header, body)
	if err != nil {
		c.metrics.callback(p.Name(), "not_genuine")
		if errors.Is(err, payment.ErrNotGenuine) {
			return "", uuid.Nil, fmt.Errorf("%w: %w", ErrBadCallback, err)
		}
		return "", uuid.Nil, &InvalidError{"callback: " + err.Error()}
	}
	o, booking, err = c.apply(ctx, p.Name(), ev)
	word := string(o)
	if err != nil {
		word = reason(err)
	}
	c.metrics.callback(p.Name(), word)
	return o, booking, err
}

// Confirm asks the provider what became of a payment and applies what it says. It is for a service that was told of a
// payment by other means; it trusts the provider, not the service.
func (c *Core) Confirm(ctx context.Context, booking, paymentID uuid.UUID) (Booking, Outcome, error) {
	var customer, provider string
	var ref payment.Ref
	brief, cancel := within(ctx)
	defer cancel()
	err := c.work.QueryRow(brief, `
SELECT b.customer, p.provider, p.payment_id, coalesce(p.gateway_ref, ''), coalesce(p.charge_ref, '')
  FROM bk.payment p
  JOIN bk.booking b USING (booking_id)
 WHERE p.payment_id = $1 AND p.booking_id = $2`, paymentID, booking).Scan(&customer, &provider, &ref.PaymentID, &ref.Page, &ref.Charge)
	if errors.Is(err, pgx.ErrNoRows) {
		return Booking{}, "", ErrUnknownPayment
	}
	if err != nil {
		return Booking{}, "", cause(ctx, err)
	}
	outcome, err := c.look(ctx, provider, ref)
	if err != nil {
		return Booking{}, "", err
	}
	b, err := c.Booking(ctx, booking, customer)
	return b, outcome, err
}

// look asks a provider about a payment and applies the answer. [OutcomeIgnored] means that nothing has happened yet.
func (c *Core) look(ctx context.Context, provider string, ref payment.Ref) (Outcome, error) {
	if provider == "none" { // what its checkout could not finish
		var currency string
		if err := c.work.QueryRow(ctx, `SELECT currency FROM bk.payment WHERE payment_id = $1`, ref.PaymentID).Scan(&currency); err != nil {
			return "", cause(ctx, err)
		}
		o, _, err := c.paid(ctx, provider, freeWord(ref.PaymentID, currency))
		return o, err
	}
	p := c.provider(provider)
	if p == nil {
		return "", ErrNoProvider
	}
	ask, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	ev, err := p.Look(ask, ref)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrProvider, err)
	}
	o, _, err := c.apply(ctx, provider, ev)
	return o, err
}

// apply makes what a provider says true here. Any event may come any number of times, in any order, at once.
func (c *Core) apply(ctx context.Context, provider string, ev payment.Event) (Outcome, uuid.UUID, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	switch ev.Kind {
	case payment.Paid:
		return c.paid(ctx, provider, ev)
	case payment.Declined:
		return c.unpaid(ctx, provider, ev, "DECLINED", OutcomeDeclined)
	case payment.Expired:
		return c.unpaid(ctx, provider, ev, "EXPIRED", OutcomeExpired)
	case payment.Refunded:
		return c.refunded(ctx, ev)
	case payment.RefundFailed:
		return c.refundFailed(ctx, ev)
	}
	return OutcomeIgnored, uuid.Nil, nil
}

// paid applies the word that money was taken.
func (c *Core) paid(ctx context.Context, provider string, ev payment.Event) (Outcome, uuid.UUID, error) {
	if err := c.reacquire(ctx, provider, ev); err != nil {
		return "", uuid.Nil, err
	}
	var outcome string
	var booking *uuid.UUID
	var event *int64
	var seats []string
	var late *float64
	err := c.once(ctx, func() error {
		return c.work.QueryRow(ctx, paidSQL, pgx.NamedArgs{
			"provider": provider, "event": ev.ID, "ref": ev.PaymentID.String(), "amount": ev.Amount, "currency": ev.Currency,
			"charge": ev.Charge, "now": c.now(),
		}).Scan(&outcome, &booking, &event, &seats, &late, nil, nil)
	})
	if err != nil {
		return "", uuid.Nil, err
	}
	if outcome == "unknown_payment" || booking == nil {
		return "", uuid.Nil, ErrUnknownPayment
	}
	if late != nil {
		c.metrics.late.Observe(*late)
	}
	if event != nil && len(seats) > 0 {
		if Outcome(outcome) == OutcomeConfirmed {
			c.changed(*event, change{status: sold, seats: seats, booking: *booking})
			c.soldAtGate(*event, seats, *booking)
		} else {
			c.changed(*event, change{status: free, seats: seats, booking: *booking})
			c.ungate(*event, seats, *booking)
		}
	}
	return Outcome(outcome), *booking, nil
}

// unpaid applies the word that an attempt to pay came to nothing.
func (c *Core) unpaid(ctx context.Context, provider string, ev payment.Event, status string, o Outcome) (Outcome, uuid.UUID, error) {
	var outcome string
	var booking *uuid.UUID
	err := c.once(ctx, func() error {
		return c.work.QueryRow(ctx, unpaidSQL, pgx.NamedArgs{
			"provider": provider, "event": ev.ID, "ref": ev.PaymentID.String(), "status": status, "now": c.now(),
		}).Scan(&outcome, &booking)
	})
	switch {
	case err != nil:
		return "", uuid.Nil, err
	case outcome == "unknown_payment" || booking == nil:
		return "", uuid.Nil, ErrUnknownPayment
	case outcome == "duplicate":
		return OutcomeDuplicate, *booking, nil
	}
	return o, *booking, nil
}

// reacquire gives late money its seats back where the event says so and they are still free: a new hold through the normal
// path, which the payment then belongs to. Otherwise it does nothing, and the money becomes a refund.
func (c *Core) reacquire(ctx context.Context, provider string, ev payment.Event) error {
	const due = `
SELECT count(*) > 0
  FROM bk.payment p JOIN bk.booking b USING (booking_id) JOIN bk.event e USING (event_id)
 WHERE p.provider = $1 AND p.provider_ref = $2 AND p.status IN ('PENDING','DECLINED','EXPIRED')
   AND p.amount_minor = $3 AND p.currency = $4 AND e.late_policy = 'reacquire'
   AND (b.status = 'EXPIRED' OR (b.status = 'HOLD' AND b.expires_at <= coalesce($5, now())))`
	var late bool
	if err := c.work.QueryRow(ctx, due, provider, ev.PaymentID.String(), ev.Amount, ev.Currency, c.now()).Scan(&late); err != nil || !late {
		return cause(ctx, err)
	}
	return c.once(ctx, func() error {
		return pgx.BeginFunc(ctx, c.work, func(tx pgx.Tx) error { return c.holdAgain(ctx, tx, provider, ev) })
	})
}

// holdAgain locks payment and booking, in this order, and holds the same seats anew for the payment.
func (c *Core) holdAgain(ctx context.Context, tx pgx.Tx, provider string, ev payment.Event) error {
	var paymentID, old uuid.UUID
	err := tx.QueryRow(ctx, `
SELECT payment_id, booking_id FROM bk.payment
 WHERE provider = $1 AND provider_ref = $2 AND status IN ('PENDING','DECLINED','EXPIRED')
   FOR NO KEY UPDATE`, provider, ev.PaymentID.String()).Scan(&paymentID, &old)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var event, amount int64
	var customer string
	var room, session *string
	var seats, types []string
	err = tx.QueryRow(ctx, `
SELECT event_id, customer, room, session, items, coalesce(ticket_types, array_fill('standard'::text, ARRAY[quantity])), amount_minor FROM bk.booking
 WHERE booking_id = $1 AND (status = 'EXPIRED' OR (status = 'HOLD' AND expires_at <= coalesce($2, now())))
   FOR NO KEY UPDATE`, old, c.now()).Scan(&event, &customer, &room, &session, &seats, &types, &amount)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	var outcome string
	var hold *uuid.UUID
	var expires *time.Time
	var now time.Time
	var conflicts, oldSeats []string
	const everyChannel = 1<<62 - 1 // what was sold once may be sold to the same customer again
	err = tx.QueryRow(ctx, holdSQL, id, event, seats, types, customer, room, session, amount, nil, nil, int64(everyChannel), nil, c.now()).
		Scan(&outcome, &hold, &expires, &conflicts, &now, &oldSeats)
	if err != nil || outcome != "held" {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE bk.payment SET booking_id = $2 WHERE payment_id = $1`, paymentID, id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE bk.booking SET replaces = $2 WHERE booking_id = $1`, id, old); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, expiredSQL, old, c.now())
	return err
}

const expiredSQL = `
WITH b AS (
  UPDATE bk.booking SET status = 'EXPIRED', resolved_at = coalesce($2, now())
   WHERE booking_id = $1 AND status = 'HOLD' RETURNING *)
INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
SELECT 'booking-events', 'booking', booking_id::text, 'BookingExpired',
       jsonb_strip_nulls(jsonb_build_object('booking_id', booking_id, 'event_id', event_id, 'seats', items, 'customer', customer,
                                            'room', room, 'session', session)) FROM b`

const refundedSQL = `
WITH r AS (
  UPDATE bk.refund SET status = 'DONE', done_at = now(), last_error = NULL
   WHERE refund_id = $1 AND status IN ('DUE','SENT') RETURNING payment_id, refund_id, amount_minor), -- one that failed is for people to settle
p AS (
  UPDATE bk.payment x SET status = 'REFUNDED' FROM r
   WHERE x.payment_id = r.payment_id AND x.status = 'REFUND_DUE'
     AND NOT EXISTS (SELECT FROM bk.refund o WHERE o.payment_id = r.payment_id AND o.refund_id <> r.refund_id AND o.status <> 'DONE')
  RETURNING x.booking_id),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'booking-events', 'booking', x.booking_id::text, 'RefundDone',
         jsonb_build_object('booking_id', x.booking_id, 'payment_id', x.payment_id, 'refund_id', r.refund_id, 'amount', r.amount_minor)
    FROM r JOIN bk.payment x USING (payment_id))
SELECT (SELECT count(*) FROM r),
       (SELECT p.booking_id FROM bk.refund o JOIN bk.payment p USING (payment_id) WHERE o.refund_id = $1)`

// refunded applies the word that money is back. A refund that we never asked for changes nothing: it is somebody's who works
// with the provider directly.
func (c *Core) refunded(ctx context.Context, ev payment.Event) (Outcome, uuid.UUID, error) {
	if ev.RefundID == uuid.Nil {
		c.log.Warn("the provider gave money back that we did not ask for", "payment", ev.PaymentID, "amount", ev.Amount)
		return OutcomeIgnored, uuid.Nil, nil
	}
	var n int64
	var booking *uuid.UUID
	if err := c.once(ctx, func() error { return c.work.QueryRow(ctx, refundedSQL, ev.RefundID).Scan(&n, &booking) }); err != nil {
		return "", uuid.Nil, err
	}
	switch {
	case booking == nil:
		return OutcomeIgnored, uuid.Nil, nil
	case n == 0:
		return OutcomeDuplicate, *booking, nil
	}
	c.metrics.refund("done")
	return OutcomeRefunded, *booking, nil
}

// A bank may return money days after the provider called the refund done.
const refundFailedSQL = `
WITH r AS (
  UPDATE bk.refund SET status = 'FAILED', last_error = 'the provider could not give the money back'
   WHERE refund_id = $1 RETURNING payment_id)
UPDATE bk.payment p SET status = 'REFUND_DUE' FROM r WHERE p.payment_id = r.payment_id AND p.status = 'REFUNDED'`

// refundFailed applies the word that a refund came to nothing. From then on the audit names it.
func (c *Core) refundFailed(ctx context.Context, ev payment.Event) (Outcome, uuid.UUID, error) {
	if ev.RefundID == uuid.Nil {
		return OutcomeIgnored, uuid.Nil, nil
	}
	err := c.once(ctx, func() error {
		_, err := c.work.Exec(ctx, refundFailedSQL, ev.RefundID)
		return err
	})
	if err != nil {
		return "", uuid.Nil, err
	}
	c.metrics.refund("failed")
	c.log.Error("a refund failed for good: give the money back by hand", "refund", ev.RefundID, "payment", ev.PaymentID)
	return OutcomeIgnored, uuid.Nil, nil
}
