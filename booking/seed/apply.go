package seed

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
)

// Report is what Apply did.
type Report struct {
	Halls, Events int // in the plan
	Added         int // seats of events that were not there before
	Changed       int // seats blocked, opened, or put on another channel
	Removed       int // seats of events that the hall no longer has
	Kept          int // seats that should change, but are held or sold
}

// String is the report on one line.
func (r Report) String() string {
	return fmt.Sprintf("halls: %d, events: %d, seats added: %d, changed: %d, removed: %d, kept as they are held or sold: %d",
		r.Halls, r.Events, r.Added, r.Changed, r.Removed, r.Kept)
}

// prepareSQL: a seeding may take longer than a request, and runs one at a time.
const prepareSQL = `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '10s', true), pg_advisory_xact_lock(4711, 101)`

// Apply makes the database say what the plan says: each hall and each event in a transaction of its own, so whoever buys
// meanwhile waits for one of them at most. Repeating it changes nothing. Seats that are held or sold are not touched; the
// error is about those that would have to go, as their hall doesn't have them any more, or comes from Postgres. What was
// applied before an error stays.
func (p *Plan) Apply(ctx context.Context, pool *pgxpool.Pool) (Report, error) {
	r := Report{Halls: len(p.Halls), Events: len(p.Events)}
	for i := range p.Halls {
		h := &p.Halls[i]
		if err := inTx(ctx, pool, func(tx pgx.Tx) error { return h.apply(ctx, tx, &r) }); err != nil {
			return r, fmt.Errorf("seed hall %d: %w", h.ID, err)
		}
	}
	if err := inTx(ctx, pool, func(tx pgx.Tx) error { return p.draft(ctx, tx) }); err != nil {
		return r, fmt.Errorf("seed events: %w", err)
	}
	if err := booking.MakePartitions(ctx, pool); err != nil {
		return r, fmt.Errorf("seed partitions: %w", err)
	}
	for i := range p.Events {
		e := &p.Events[i]
		if err := inTx(ctx, pool, func(tx pgx.Tx) error { return e.apply(ctx, tx, p.hall(e.Map), &r) }); err != nil {
			return r, fmt.Errorf("seed event %d: %w", e.ID, err)
		}
	}
	return r, nil
}

// draftSQL makes an event known before it has seats: partitions are made for events that are there.
const draftSQL = `
INSERT INTO bk.event (event_id, kind, name, starts_at, venue_tz, currency, status)
VALUES ($1, $2, $3, $4, $5, $6, 'DRAFT')
ON CONFLICT (event_id) DO NOTHING`

func (p *Plan) draft(ctx context.Context, tx pgx.Tx) error {
	for _, e := range p.Events {
		if err := exec(ctx, tx, draftSQL, e.ID, e.Kind, e.Name, e.StartsAt, e.Zone, e.Currency); err != nil {
			return err
		}
	}
	return nil
}

// tries is how often a transaction is begun that Postgres ends because of a deadlock.
const tries = 3

func inTx(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) (err error) {
	for range tries {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := exec(ctx, tx, prepareSQL); err != nil {
				return err
			}
			return work(tx)
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "40P01" {
			return err
		}
	}
	return err
}

func exec(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	_, err := tx.Exec(ctx, sql, args...)
	return err
}

// steps runs statements that share their arguments.
func steps(ctx context.Context, tx pgx.Tx, statements []string, args ...any) error {
	for _, s := range statements {
		if err := exec(ctx, tx, s, args...); err != nil {
			return err
		}
	}
	return nil
}
