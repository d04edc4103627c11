package booking

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ropeline/booking/payment"
)

// providerTimeout bounds one call of a provider, pageTimeout the one that a customer waits for.
const (
	providerTimeout = 10 * time.Second
	pageTimeout     = 6 * time.Second
)

// Checkout opens a payment page for a live hold. The payment is written down first and its id is the provider's key, so a
// crash or a repeated call opens no second page, and no callback can arrive before we know of the payment. The page is
// closed at PayBy, which leaves the callback time to arrive before the hold ends.
//
// A hold that costs nothing is confirmed at once; its URL is "".
//
// It returns [ErrHoldGone], [ErrHoldExpiring], [*LimitError] (too many attempts), [ErrKeyMissing], [ErrKeyReuse], [ErrNotAdmitted], [ErrNoProvider] or [ErrProvider].
func (c *Core) Checkout(ctx context.Context, r CheckoutRequest) (Checkout, error) {
	if r.Key == "" {
		return Checkout{}, ErrKeyMissing
	}
	if err := valid(r.Customer, r.Key); err != nil {
		return Checkout{}, err
	}
	brief, cancel := within(ctx)
	defer cancel()
	if err := c.admitted(brief, r.Hold, r.Admission); err != nil {
		return Checkout{}, err
	}
	provider := c.provider("")
	name := "none"
	if provider != nil {
		name = provider.Name()
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Checkout{}, err
	}
	sum := sha256.Sum256([]byte(r.ReturnURL))
	var outcome, currency, title, url, status string
	var paymentID *uuid.UUID
	var payBy *time.Time
	var out Checkout
	ask := func() error {
		return c.work.QueryRow(brief, checkoutSQL, pgx.NamedArgs{
			"hold": r.Hold, "customer": r.Customer, "payment": id, "provider": name, "key": r.Key, "hash": sum[:],
			"reconcile": c.cfg.ReconcileAfter, "now": c.now(),
		}).Scan(&outcome, &paymentID, &payBy, &out.Amount.Amount, &currency, &name, &url, &status, &title, &out.Now)
	}
	wanted := name
	if err = c.once(brief, ask); err == nil && outcome != "created" && outcome != "replay" && outcome != "key_reuse" {
		name = wanted
		err = c.once(brief, ask) // a twin that came with the same key shows only now
	}
	if err != nil {
		return Checkout{}, err
	}
	switch outcome {
	case "hold_gone":
		return Checkout{}, ErrHoldGone
	case "too_late":
		return Checkout{}, ErrHoldExpiring
	case "too_many":
		return Checkout{}, &LimitError{Retry: time.Minute}
	case "key_reuse":
		return Checkout{}, ErrKeyReuse
	}
	out.PaymentID, out.PayBy, out.Amount.Currency, out.URL = *paymentID, *payBy, currency, url
	out.Replayed = outcome == "replay"
	if url != "" {
		return out, nil
	}
	if name == "none" && out.Amount.Amount == 0 {
		return out, c.settleFree(ctx, r, out)
	}
	if out.Replayed && (status != "PENDING" || !out.PayBy.After(out.Now)) {
		return Checkout{}, ErrHoldGone // its page never opened, and must not open now
	}
	if provider = c.provider(name); provider == nil {
		return Checkout{}, ErrNoProvider
	}
	out.URL, err = c.open(ctx, provider, r, out, title)
	return out, err
}

// admitted holds a hold's event to the rooms that lead to it.
func (c *Core) admitted(ctx context.Context, hold uuid.UUID, a Admission) error {
	var event int64
	err := c.work.QueryRow(ctx, `SELECT event_id FROM bk.booking WHERE booking_id = $1 AND customer = $2`, hold, a.Customer).Scan(&event)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrHoldGone
	}
	if err != nil {
		return cause(ctx, err)
	}
	return c.Admitted(ctx, event, a)
}

// Admitted returns nil if a may hold seats of an event, [ErrNotAdmitted] if a room must let them in first.
func (c *Core) Admitted(ctx context.Context, event int64, a Admission) error {
	e, err := c.catalog.event(ctx, event)
	if err != nil {
		return err
	}
	if len(e.Rooms) == 0 {
		return nil
	}
	for _, room := range e.Rooms {
		if room == a.Room {
			return nil
		}
	}
	return ErrNotAdmitted
}

// provider returns the provider of a name, the one for new payments for "", or nil.
func (c *Core) provider(name string) payment.Provider {
	for _, p := range c.cfg.Providers {
		if name == "" || p.Name() == name {
			return p
		}
	}
	return nil
}

// open has the provider open the page, and writes down where it is.
func (c *Core) open(ctx context.Context, provider payment.Provider, r CheckoutRequest, out Checkout, title string) (string, error) {
	ask, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := provider.Start(ask, payment.Order{
		PaymentID: out.PaymentID, BookingID: r.Hold, Amount: out.Amount.Amount, Currency: out.Amount.Currency,
		Title: title, PayBy: out.PayBy, ReturnURL: r.ReturnURL,
	})
	if err != nil {
		c.log.Warn("payment page not opened", "provider", provider.Name(), "payment", out.PaymentID, "err", err)
		return "", fmt.Errorf("%w: %w", ErrProvider, err)
	}
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err = c.work.Exec(note, `
UPDATE bk.payment
   SET gateway_ref = $2, checkout_url = $3
 WHERE payment_id = $1`, out.PaymentID, page.Ref, page.URL)
	if err != nil { // the same call opens the same page again
		c.log.Warn("payment page not written down", "payment", out.PaymentID, "err", err)
	}
	return page.URL, nil
}

// settleFree confirms a hold that costs nothing.
func (c *Core) settleFree(ctx context.Context, r CheckoutRequest, out Checkout) error {
	if _, _, err := c.paid(ctx, "none", freeWord(out.PaymentID, out.Amount.Currency)); err != nil {
		return err
	}
	b, err := c.Booking(ctx, r.Hold, r.Customer)
	if err == nil && b.Status != Confirmed {
		err = ErrHoldGone
	}
	return err
}

// freeWord says that nothing was paid, which is all that was asked.
func freeWord(paymentID uuid.UUID, currency string) payment.Event {
	return payment.Event{ID: payment.LookID(paymentID, payment.Paid), Kind: payment.Paid, PaymentID: paymentID, Currency: currency}
}
