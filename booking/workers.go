package booking

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"ropeline/booking/payment"
)

// worker does something again and again, on every node at once: what one node has under way the others pass over.
type worker struct {
	name  string
	every time.Duration
	work  func(context.Context) error
}

func (c *Core) workers() []worker {
	return []worker{
		{"clock", 5 * time.Second, c.readClock},
		{"sweep", c.cfg.SweepEvery, c.Sweep},
		{"close", 5 * time.Second, c.closePages},
		{"reconcile", 5 * time.Second, c.Reconcile},
		{"refund", time.Second, c.SendRefunds},
		{"partitions", 10 * time.Minute, c.keepPartitions},
		{"audit", c.cfg.AuditEvery, c.auditRecent},
		{"tidy", time.Minute, c.tidy},
	}
}

// mostRound bounds one round of a worker. What it leaves is due again.
const mostRound = 5 * time.Minute

// repeat runs a worker until ctx ends. A round that fails is told once until a round succeeds.
func (c *Core) repeat(ctx context.Context, w worker) {
	failing := false
	for {
		round, cancel := context.WithTimeoutCause(ctx, mostRound, ErrAway)
		err := w.work(round)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.metrics.workers.WithLabelValues(w.name).Inc()
			if !failing {
				c.log.Warn("booking worker", "worker", w.name, "err", err)
			}
		case failing:
			c.log.Info("booking worker recovered", "worker", w.name)
		}
		failing = err != nil
		timer := time.NewTimer(w.every*9/10 + rand.N(w.every/5+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// readClock learns the database's time.
func (c *Core) readClock(ctx context.Context) error {
	ctx, cancel := within(ctx)
	defer cancel()
	began := time.Now()
	var now time.Time
	if err := c.work.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return cause(ctx, err)
	}
	c.clock.saw(began, time.Now(), now)
	return nil
}

const mostSwept = 500 // bookings in one transaction

// Sweep marks holds whose time is up, for display; no decision waits for it. Any number may run.
func (c *Core) Sweep(ctx context.Context) error {
	for {
		var expired, released int
		err := c.once(ctx, func() error {
			return c.work.QueryRow(ctx, expireSQL, pgx.NamedArgs{"now": c.now(), "most": mostSwept}).Scan(&expired, &released)
		})
		if err != nil {
			return err
		}
		c.metrics.expired.Add(float64(expired))
		if expired < mostSwept {
			return nil
		}
	}
}

// open payment as the workers see it.
type openPayment struct {
	provider string
	ref      payment.Ref
	over     bool // its page should be closed
}

// claim takes payments or refunds that are due by a statement that puts their next turn off, so that a crash loses nothing.
func claim[T any](ctx context.Context, c *Core, sql string, read pgx.RowToFunc[T], args ...any) ([]T, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	rows, err := c.work.Query(ctx, sql, args...)
	if err != nil {
		return nil, cause(ctx, err)
	}
	got, err := pgx.CollectRows(rows, read)
	return got, cause(ctx, err)
}

func readOpen(row pgx.CollectableRow) (p openPayment, err error) {
	return p, row.Scan(&p.provider, &p.ref.PaymentID, &p.ref.Page, &p.ref.Charge, &p.over)
}

const closeSQL = `
WITH due AS MATERIALIZED (
  SELECT payment_id FROM bk.payment
   WHERE status = 'PENDING' AND closed_at IS NULL AND checkout_expires_at <= coalesce($1, now())
   ORDER BY checkout_expires_at LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE bk.payment p SET closed_at = now()
  FROM due WHERE p.payment_id = due.payment_id
RETURNING p.provider, p.payment_id, coalesce(p.gateway_ref, ''), coalesce(p.charge_ref, ''), true`

// closePages ends the payment pages that are past their time, so that no money comes in for a hold that is about to end, and
// notes what became of them.
func (c *Core) closePages(ctx context.Context) error {
	due, err := claim(ctx, c, closeSQL, readOpen, c.now())
	if err != nil {
		return err
	}
	return each(due, func(p openPayment) error {
		err := c.closePage(ctx, p)
		if err != nil {
			_, again := c.work.Exec(ctx, `UPDATE bk.payment SET closed_at = NULL WHERE payment_id = $1 AND status = 'PENDING' AND created_at > now() - interval '15 min'`, p.ref.PaymentID)
			err = errors.Join(err, cause(ctx, again))
		}
		return err
	})
}

// mostCalls is how many calls of providers one worker has under way: one that answers slowly must not make the others late.
const mostCalls = 8

// each does something for each of all, several at a time, and returns what went wrong.
func each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(mostCalls)
	for i, one := range all {
		group.Go(func() error {
			errs[i] = do(one)
			return nil
		})
	}
	_ = group.Wait() // each error is in errs
	return errors.Join(errs...)
}

func (c *Core) closePage(ctx context.Context, p openPayment) error {
	if p.provider == "none" {
		_, err := c.look(ctx, p.provider, p.ref)
		return err
	}
	provider := c.provider(p.provider)
	if provider == nil {
		return ErrNoProvider
	}
	ask, cancel := context.WithTimeout(ctx, providerTimeout)
	err := provider.Close(ask, p.ref)
	cancel()
	if errors.Is(err, payment.ErrUnknown) { // the page was never opened
		return c.never(ctx, p)
	}
	if err != nil {
		return err
	}
	_, err = c.look(ctx, p.provider, p.ref)
	return err
}

// never ends a payment that its provider never heard of.
func (c *Core) never(ctx context.Context, p openPayment) error {
	_, _, err := c.unpaid(ctx, p.provider, payment.Event{
		ID: payment.LookID(p.ref.PaymentID, payment.Expired), Kind: payment.Expired, PaymentID: p.ref.PaymentID,
	}, "EXPIRED", OutcomeExpired)
	return err
}

const reconcileSQL = `
WITH due AS MATERIALIZED (
  SELECT payment_id FROM bk.payment
   WHERE status = 'PENDING' AND next_check_at <= coalesce($1, now())
   ORDER BY next_check_at LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE bk.payment p
   SET checks = p.checks + 1, next_check_at = coalesce($1, now()) + least(interval '1 min' * power(2, least(p.checks, 6)), interval '1 hour')
  FROM due WHERE p.payment_id = due.payment_id
RETURNING p.provider, p.payment_id, coalesce(p.gateway_ref, ''), coalesce(p.charge_ref, ''), p.checkout_expires_at <= coalesce($1, now())`

// Reconcile asks the providers about payments that nobody has called back about for ReconcileAfter, and applies what they
// say by the same rules as a callback. A payment that stays open is asked about again, ever more seldom. Any number may run.
func (c *Core) Reconcile(ctx context.Context) error {
	due, err := claim(ctx, c, reconcileSQL, readOpen, c.now())
	if err != nil {
		return err
	}
	return each(due, func(p openPayment) error {
		_, err := c.look(ctx, p.provider, p.ref)
		switch {
		case errors.Is(err, payment.ErrUnknown) && p.over:
			return c.never(ctx, p)
		case err == nil && p.over: // money may still come in by an open page
			return c.closePage(ctx, p)
		}
		return err
	})
}

const refundDueSQL = `
WITH due AS MATERIALIZED (
  SELECT refund_id FROM bk.refund
   WHERE status IN ('DUE','SENT') AND next_try_at <= now()
   ORDER BY next_try_at LIMIT 50 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE bk.refund r
   SET status = 'SENT', tries = r.tries + 1,
       next_try_at = now() + least(interval '10 s' * power(2, least(r.tries, 10)), interval '1 hour')
  FROM due, bk.payment p
 WHERE r.refund_id = due.refund_id AND p.payment_id = r.payment_id
RETURNING p.provider, r.refund_id, r.payment_id, coalesce(p.gateway_ref, ''), coalesce(p.charge_ref, ''), r.amount_minor,
          coalesce(p.captured_currency, p.currency)::text`

type dueRefund struct {
	provider string
	payment.Refund
}

// SendRefunds has the providers give money back that is due. The refund's id is the provider's key, and its row outlives
// every try, so however often a try fails or its answer is lost the money goes back once. Any number may run.
func (c *Core) SendRefunds(ctx context.Context) error {
	due, err := claim(ctx, c, refundDueSQL, func(row pgx.CollectableRow) (r dueRefund, err error) {
		return r, row.Scan(&r.provider, &r.ID, &r.PaymentID, &r.Page, &r.Charge, &r.Amount, &r.Currency)
	})
	if err != nil {
		return err
	}
	return each(due, func(r dueRefund) error { return c.sendRefund(ctx, r) })
}

func (c *Core) sendRefund(ctx context.Context, r dueRefund) error {
	provider := c.provider(r.provider)
	if provider == nil {
		return c.refundTried(ctx, r.ID, "DUE", ErrNoProvider)
	}
	ask, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	state, err := provider.Refund(ask, r.Refund)
	var permanent payment.Permanent
	switch {
	case errors.As(err, &permanent):
		c.metrics.refund("failed")
		c.log.Error("a refund was refused for good: give the money back by hand", "refund", r.ID, "payment", r.PaymentID, "err", err)
		return c.refundTried(ctx, r.ID, "FAILED", err)
	case err != nil:
		c.metrics.refund("tried_again")
		return errors.Join(err, c.refundTried(ctx, r.ID, "SENT", err))
	}
	if _, err := c.work.Exec(ctx, `UPDATE bk.refund SET gateway_ref = $2 WHERE refund_id = $1`, r.ID, state.Ref); err != nil {
		return cause(ctx, err)
	}
	if !state.Done {
		return nil
	}
	_, _, err = c.refunded(ctx, payment.Event{Kind: payment.Refunded, PaymentID: r.PaymentID, RefundID: r.ID, Amount: r.Amount})
	return err
}

func (c *Core) refundTried(ctx context.Context, id uuid.UUID, status string, why error) error {
	_, err := c.work.Exec(ctx, `UPDATE bk.refund SET status = $2, last_error = left($3, 500) WHERE refund_id = $1 AND status <> 'DONE'`, id, status, why.Error())
	return cause(ctx, err)
}

// partitionsAhead is how many empty partitions of the seat table should stand ready.
const partitionsAhead = 2

// MakePartitions makes the partitions of the seat table that events need, and a few ahead. It never makes a sale wait for more
// than a moment: while somebody reads the seats for long, as a backup does, it tries again, for half a minute.
func MakePartitions(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := makePartitions(ctx, pool)
	return err
}

func makePartitions(ctx context.Context, pool *pgxpool.Pool) (ready int, err error) {
	for range 60 {
		err = pool.QueryRow(ctx, `SELECT bk.make_partitions(p_ahead => $1)`, partitionsAhead).Scan(&ready)
		if code(err) != "55P03" {
			break
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return ready, cause(ctx, err)
}

// keepPartitions keeps empty partitions of the seat table ready.
func (c *Core) keepPartitions(ctx context.Context) error {
	ready, err := makePartitions(ctx, c.work)
	if err != nil {
		return err
	}
	c.metrics.parts.Set(float64(ready))
	if ready < partitionsAhead {
		c.log.Error("fewer empty partitions of bk.seat than there should be: seats of new events pile up in bk.seat_rest", "ready", ready)
	}
	return nil
}

// tidy forgets what nobody asks for, and what providers told long ago.
func (c *Core) tidy(ctx context.Context) error {
	c.boards.mu.Lock()
	c.boards.tidy(boardIdle)
	c.boards.mu.Unlock()
	_, err := c.work.Exec(ctx, `
DELETE FROM bk.inbox WHERE (provider, event_id) IN (
  SELECT provider, event_id FROM bk.inbox WHERE received_at < now() - interval '90 days' LIMIT 1000)`)
	return cause(ctx, err)
}
