package booking

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const bookingSQL = `
SELECT b.event_id, b.customer, coalesce(b.room, ''),
       CASE WHEN b.status = 'HOLD' AND b.expires_at <= coalesce($3, now()) THEN 'EXPIRED' ELSE b.status END,
       b.items, b.ticket_types, b.amount_minor, b.created_at, b.expires_at, coalesce($3, now())
  FROM bk.booking b
 WHERE b.booking_id = $1 AND b.customer = ANY ($2) AND b.kind = 'SEATS'`

// Booking returns a booking of one of these customers, with its payments; [ErrNoBooking] for another's.
func (c *Core) Booking(ctx context.Context, id uuid.UUID, customers ...string) (Booking, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	b := Booking{ID: id}
	var items, types []string
	err := c.work.QueryRow(ctx, bookingSQL, id, customers, c.now()).Scan(&b.Event, &b.Customer, &b.Room, &b.Status, &items, &types,
		&b.Amount.Amount, &b.CreatedAt, &b.ExpiresAt, &b.Now)
	if errors.Is(err, pgx.ErrNoRows) {
		return Booking{}, ErrNoBooking
	}
	if err != nil {
		return Booking{}, cause(ctx, err)
	}
	e, err := c.catalog.event(ctx, b.Event)
	if err != nil {
		return Booking{}, err
	}
	b.Amount.Currency = e.Currency
	b.Items = make([]Item, len(items))
	for i, code := range items {
		it := Item{Seat: code, TicketType: "standard"}
		if i < len(types) {
			it.TicketType = types[i]
		}
		if s, ok := e.layout.Seat(code); ok {
			it.Tier = s.Tier
			it.Amount = e.prices[[2]string{s.Tier, it.TicketType}]
		}
		b.Items[i] = it
	}
	b.Payments, err = c.payments(ctx, id)
	return b, err
}

const paymentsSQL = `
SELECT p.payment_id, p.status, p.amount_minor, p.currency, r.refund_id, r.reason, r.amount_minor, r.status
  FROM bk.payment p
  LEFT JOIN bk.refund r USING (payment_id)
 WHERE p.booking_id = $1
 ORDER BY p.created_at, p.payment_id, r.created_at`

func (c *Core) payments(ctx context.Context, id uuid.UUID) ([]Payment, error) {
	rows, err := c.work.Query(ctx, paymentsSQL, id)
	if err != nil {
		return nil, cause(ctx, err)
	}
	defer rows.Close()
	var all []Payment
	for rows.Next() {
		var p Payment
		var refund *uuid.UUID
		var reason, status *string
		var amount *int64
		if err := rows.Scan(&p.ID, &p.Status, &p.Amount.Amount, &p.Amount.Currency, &refund, &reason, &amount, &status); err != nil {
			return nil, cause(ctx, err)
		}
		if n := len(all); n == 0 || all[n-1].ID != p.ID {
			all = append(all, p)
		}
		if refund != nil {
			last := &all[len(all)-1]
			last.Refunds = append(last.Refunds, Refund{ID: *refund, Reason: *reason, Amount: *amount, Status: *status})
		}
	}
	return all, cause(ctx, rows.Err())
}

// Live says whether a customer of a room holds seats now, or has just paid with money that is still being settled.
func (c *Core) Live(ctx context.Context, customer, room string) (live bool, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	err = c.work.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM bk.booking b
                WHERE b.customer = $1 AND b.room = $2 AND b.status = 'HOLD' AND b.expires_at > coalesce($3, now()))`,
		customer, room, c.now()).Scan(&live)
	return live, cause(ctx, err)
}

// Extend lets a live hold last for another hold_ttl from now, at most to the event's max_hold_age. The same key does so once.
// It returns [ErrHoldGone], also for a hold of another customer, or [ErrExtendLimit].
func (c *Core) Extend(ctx context.Context, id uuid.UUID, key string, customers ...string) (Booking, error) {
	if err := valid("", key); err != nil {
		return Booking{}, err
	}
	ctx, cancel := within(ctx)
	defer cancel()
	var outcome string
	var event int64
	var seats []string
	err := c.once(ctx, func() error {
		return c.work.QueryRow(ctx, extendSQL, pgx.NamedArgs{"hold": id, "customers": customers, "key": orNil(key), "now": c.now()}).
			Scan(&outcome, &event, &seats, nil)
	})
	if err != nil {
		return Booking{}, err
	}
	switch outcome {
	case "hold_gone":
		return Booking{}, ErrHoldGone
	case "limit":
		return Booking{}, ErrExtendLimit
	}
	b, err := c.Booking(ctx, id, customers...)
	if err != nil {
		return Booking{}, err
	}
	c.changed(event, change{status: held, seats: seats, booking: id, holder: digest(b.Customer), until: b.ExpiresAt.UnixMilli()})
	c.keep(ctx, event, seats, id, b.ExpiresAt.Sub(b.Now))
	return b, nil
}

// Release gives a hold up; its seats are free at once. Nil also the second time, and for a hold that ended by itself.
// It returns [ErrConfirmed] for a booking that was paid, and [ErrNoBooking].
func (c *Core) Release(ctx context.Context, id uuid.UUID, customers ...string) error {
	cancelled, was, err := c.giveUp(ctx, releaseSQL, pgx.NamedArgs{"hold": id, "customers": customers, "now": c.now()}, id)
	switch {
	case err != nil:
		return err
	case cancelled:
		return nil
	}
	switch Status(was) {
	case "":
		return ErrNoBooking
	case Confirmed:
		return ErrConfirmed
	}
	return nil
}

// Cancel gives a booking back: of a confirmed one the money becomes due for refund in the same commit, a hold is released.
// Repeated, it answers the same. It returns [ErrNotCancellable] for a booking whose event has begun or whose ticket was used.
func (c *Core) Cancel(ctx context.Context, id uuid.UUID, customers ...string) (Booking, error) {
	err := c.Release(ctx, id, customers...)
	if errors.Is(err, ErrConfirmed) {
		var cancelled bool
		var was string
		cancelled, was, err = c.giveUp(ctx, cancelSQL, pgx.NamedArgs{"booking": id, "customers": customers, "now": c.now()}, id)
		if err == nil && !cancelled && Status(was) == Confirmed {
			err = ErrNotCancellable
		}
	}
	if err != nil {
		return Booking{}, err
	}
	return c.Booking(ctx, id, customers...)
}

// giveUp runs release or cancel, and tells the board and the gate.
func (c *Core) giveUp(ctx context.Context, sql string, args pgx.NamedArgs, id uuid.UUID) (cancelled bool, was string, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	var n, event int64
	var seats []string
	err = c.once(ctx, func() error {
		dest := []any{&n, &event, &seats, &was}
		if sql == cancelSQL {
			dest = append(dest, nil)
		}
		return c.work.QueryRow(ctx, sql, args).Scan(dest...)
	})
	if err != nil {
		return false, "", err
	}
	if n > 0 {
		c.changed(event, change{status: free, seats: seats, booking: id})
		c.ungate(event, seats, id)
		return true, was, nil
	}
	// What the statement saw may be older than what it waited for.
	err = c.work.QueryRow(ctx, `SELECT status FROM bk.booking WHERE booking_id = $1 AND customer = ANY ($2)`, id, args["customers"]).Scan(&was)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, "", nil
	}
	return false, was, cause(ctx, err)
}

// once runs work, and once more if a deadlock or a serialization failure undid it.
func (c *Core) once(ctx context.Context, work func() error) error {
	err := work()
	if retryable(err) {
		time.Sleep(10 * time.Millisecond)
		err = work()
	}
	if broken(err) {
		c.log.Error("a transition broke a rule of the schema", "err", err)
		c.metrics.broken.Inc()
	}
	return cause(ctx, err)
}

// gateTime bounds what the gate may cost beside a transition that is done.
const gateTime = 200 * time.Millisecond

// soldTTL is how long a sold seat's mark lasts, if nothing removes it.
const soldTTL = 24 * time.Hour

// atTheGate does what is left to do there, until ctx ends.
func (c *Core) atTheGate(ctx context.Context) {
	for {
		select {
		case do := <-c.drops:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// gated says whether an event has a gate here, as far as this node knows the event.
func (c *Core) gated(event int64) bool {
	if c.cfg.Gate == nil {
		return false
	}
	c.catalog.mu.RLock()
	e := c.catalog.events[event]
	c.catalog.mu.RUnlock()
	return e != nil && e.RedisGate
}

// ungate removes a hold's marks. What the gate does not take now goes with its time to live.
func (c *Core) ungate(event int64, seats []string, hold uuid.UUID) {
	c.atGate(event, func(ctx context.Context) error { return c.cfg.Gate.Drop(ctx, event, seats, hold.String()) })
}

// regate marks the seats of a hold that did not come through the gate: a swap.
func (c *Core) regate(e *Event, a *ask) {
	c.atGate(e.ID, func(ctx context.Context) error {
		_, err := c.cfg.Gate.Swap(ctx, e.ID, a.seats, a.hold.String(), a.replaces.String(), a.expires.Sub(a.now))
		return err
	})
}

func (c *Core) keep(_ context.Context, event int64, seats []string, hold uuid.UUID, ttl time.Duration) {
	c.atGate(event, func(ctx context.Context) error { return c.cfg.Gate.Keep(ctx, event, seats, hold.String(), ttl) })
}

func (c *Core) soldAtGate(event int64, seats []string, hold uuid.UUID) {
	c.atGate(event, func(ctx context.Context) error { return c.cfg.Gate.Sold(ctx, event, seats, hold.String(), soldTTL) })
}

// atGate does something at an event's gate, within bounds, whatever became of the request: the database has decided.
func (c *Core) atGate(event int64, do func(context.Context) error) {
	if !c.gated(event) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), gateTime)
	defer cancel()
	if err := do(ctx); err != nil {
		c.log.Debug("gate", "event", event, "err", err)
	}
}
