package seed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const lockEventSQL = `
SELECT e.currency, EXISTS (SELECT FROM bk.booking b WHERE b.event_id = e.event_id)
  FROM bk.event e
 WHERE e.event_id = $1
   FOR UPDATE OF e`

const eventSQL = `
UPDATE bk.event
   SET map_id = @hall, kind = @kind, name = @name, starts_at = @starts_at, venue_tz = @zone, currency = @currency, status = @status,
       sales_open_at = coalesce(@opens_at::timestamptz, '-infinity'), sales_close_at = coalesce(@closes_at::timestamptz, 'infinity'),
       hold_ttl = @hold, checkout_ttl = @checkout, max_hold_age = @max_hold_age, max_seats = @max_seats,
       customer_cap = nullif(@customer_cap::int, 0), holds_per_min = @holds_per_min, redis_gate = @redis_gate, rooms = @rooms,
       late_policy = @late_policy
 WHERE event_id = @event`

const dropPricesSQL = `
DELETE FROM bk.event_price
 WHERE event_id = $1
   AND (tier, ticket_type) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))`

const pricesSQL = `
INSERT INTO bk.event_price (event_id, tier, ticket_type, amount_minor)
SELECT $1, u.tier, u.kind, u.amount
  FROM unnest($2::text[], $3::text[], $4::bigint[]) u(tier, kind, amount)
ON CONFLICT (event_id, tier, ticket_type) DO UPDATE SET amount_minor = excluded.amount_minor`

const wantSeatsSQL = `
CREATE TEMP TABLE seed_seat (seat_code text COLLATE "C" PRIMARY KEY, status text, channel smallint) ON COMMIT DROP`

const oursSQL = `
CREATE TEMP TABLE seed_ours (seat_code text COLLATE "C" PRIMARY KEY) ON COMMIT DROP`

// lockSeatsSQL locks what differs and nobody has, in the one order in which everybody locks seats.
const lockSeatsSQL = `
WITH locked AS MATERIALIZED (
  SELECT s.seat_code
    FROM bk.seat s
    LEFT JOIN seed_seat w ON w.seat_code = s.seat_code
   WHERE s.event_id = $1
     AND s.status IN ('AVAILABLE', 'BLOCKED')
     AND (s.status, s.channel) IS DISTINCT FROM (w.status, w.channel)
   ORDER BY s.seat_code
     FOR UPDATE OF s)
INSERT INTO seed_ours SELECT seat_code FROM locked`

const dropEventSeatsSQL = `
DELETE FROM bk.seat s USING seed_ours o
 WHERE s.event_id = $1 AND s.seat_code = o.seat_code
   AND NOT EXISTS (SELECT FROM seed_seat w WHERE w.seat_code = s.seat_code)`

const strandedEventSQL = `
SELECT s.seat_code
  FROM bk.seat s
 WHERE s.event_id = $1
   AND NOT EXISTS (SELECT FROM seed_seat w WHERE w.seat_code = s.seat_code)
 ORDER BY s.seat_code
 LIMIT 10`

const changeSeatsSQL = `
UPDATE bk.seat s
   SET status = w.status, channel = w.channel
  FROM seed_ours o JOIN seed_seat w USING (seat_code)
 WHERE s.event_id = $1 AND s.seat_code = o.seat_code`

const addSeatsSQL = `
INSERT INTO bk.seat (event_id, seat_code, status, channel)
SELECT $1, w.seat_code, w.status, w.channel
  FROM seed_seat w
 WHERE NOT EXISTS (SELECT FROM bk.seat s WHERE s.event_id = $1 AND s.seat_code = w.seat_code)`

// keptSQL counts the seats that should be otherwise but are somebody's.
const keptSQL = `
SELECT count(*)
  FROM bk.seat s
  JOIN seed_seat w USING (seat_code)
 WHERE s.event_id = $1
   AND s.status IN ('HELD', 'SOLD')
   AND (w.status = 'BLOCKED' OR s.channel <> w.channel)`

// tellSQL tells whoever keeps a picture of the seats that it is to be made anew.
const tellSQL = `
INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
VALUES ('inventory-changed', 'event', $1::bigint::text, 'SeatsChanged', jsonb_build_object('event_id', $1::bigint))`

func (e *Event) apply(ctx context.Context, tx pgx.Tx, h *Hall, r *Report) error {
	var currency string
	var booked bool
	if err := tx.QueryRow(ctx, lockEventSQL, e.ID).Scan(&currency, &booked); err != nil {
		return err
	}
	if booked && currency != e.Currency {
		return fmt.Errorf("its currency can't change from %s to %s: it has bookings", currency, e.Currency)
	}
	if err := exec(ctx, tx, eventSQL, e.arguments()); err != nil {
		return err
	}
	if err := e.applyPrices(ctx, tx); err != nil {
		return err
	}
	return e.applySeats(ctx, tx, h, r)
}

func (e *Event) arguments() pgx.NamedArgs {
	rooms := e.Rooms
	if rooms == nil {
		rooms = []string{}
	}
	return pgx.NamedArgs{
		"event": e.ID, "hall": e.Map, "kind": e.Kind, "name": e.Name, "starts_at": e.StartsAt, "zone": e.Zone,
		"currency": e.Currency, "status": e.Status, "opens_at": orNull(e.OpensAt), "closes_at": orNull(e.ClosesAt),
		"hold": e.HoldTTL, "checkout": e.CheckoutTTL, "max_hold_age": e.MaxHoldAge, "max_seats": e.MaxSeats,
		"customer_cap": e.CustomerCap, "holds_per_min": e.HoldsPerMin, "redis_gate": e.RedisGate, "rooms": rooms,
		"late_policy": e.LatePolicy,
	}
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (e *Event) applyPrices(ctx context.Context, tx pgx.Tx) error {
	var tiers, kinds []string
	var amounts []int64
	for _, p := range e.Prices {
		tiers, kinds, amounts = append(tiers, p.Tier), append(kinds, p.TicketType), append(amounts, p.Amount)
	}
	if err := exec(ctx, tx, dropPricesSQL, e.ID, tiers, kinds); err != nil {
		return err
	}
	return exec(ctx, tx, pricesSQL, e.ID, tiers, kinds, amounts)
}

func (e *Event) applySeats(ctx context.Context, tx pgx.Tx, h *Hall, r *Report) error {
	if h == nil {
		return errors.New("its hall is not in the plan")
	}
	if err := steps(ctx, tx, []string{wantSeatsSQL, oursSQL}); err != nil {
		return err
	}
	rows := pgx.CopyFromSlice(len(h.Seats), func(i int) ([]any, error) {
		code, status := h.Seats[i].Code, "AVAILABLE"
		if e.Blocked[code] {
			status = "BLOCKED"
		}
		return []any{code, status, int16(e.Channels[code])}, nil //nolint:gosec // at most 62
	})
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"seed_seat"}, []string{"seat_code", "status", "channel"}, rows); err != nil {
		return err
	}
	if err := exec(ctx, tx, lockSeatsSQL, e.ID); err != nil {
		return err
	}
	removed, err := tx.Exec(ctx, dropEventSeatsSQL, e.ID)
	if err != nil {
		return err
	}
	if err := stranded(ctx, tx, strandedEventSQL, e.ID); err != nil {
		return err
	}
	changed, err := tx.Exec(ctx, changeSeatsSQL, e.ID)
	if err != nil {
		return err
	}
	added, err := tx.Exec(ctx, addSeatsSQL, e.ID)
	if err != nil {
		return err
	}
	if removed.RowsAffected()+changed.RowsAffected()+added.RowsAffected() > 0 {
		if err := exec(ctx, tx, tellSQL, e.ID); err != nil {
			return err
		}
	}
	var kept int
	if err := tx.QueryRow(ctx, keptSQL, e.ID).Scan(&kept); err != nil {
		return err
	}
	r.Removed += int(removed.RowsAffected())
	r.Changed += int(changed.RowsAffected())
	r.Added += int(added.RowsAffected())
	r.Kept += kept
	return nil
}
