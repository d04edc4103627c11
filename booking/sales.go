package booking

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ropeline/booking/outbox"
)

// Sale is how an event sells. A hold whose time is up counts as free.
type Sale struct {
	ID       int64     `json:"id"`
	Name     string    `json:"name"`
	Status   string    `json:"status"`
	StartsAt time.Time `json:"startsAt"`
	Rooms    []string  `json:"rooms"`
	Free     int64     `json:"free"`
	Held     int64     `json:"held"`
	Sold     int64     `json:"sold"`
	Blocked  int64     `json:"blocked"`
}

const salesSQL = `
SELECT e.event_id, e.name, e.status, e.starts_at, e.rooms,
       count(*) FILTER (WHERE s.status = 'AVAILABLE' OR s.status = 'HELD' AND s.hold_expires_at <= coalesce($1, now())),
       count(*) FILTER (WHERE s.status = 'HELD' AND s.hold_expires_at > coalesce($1, now())),
       count(*) FILTER (WHERE s.status = 'SOLD'),
       count(*) FILTER (WHERE s.status = 'BLOCKED')
  FROM (SELECT event_id, name, status, starts_at, rooms
          FROM bk.event
         WHERE starts_at > now() - interval '1 day'
         ORDER BY starts_at, event_id
         LIMIT 200) e
  LEFT JOIN bk.seat s USING (event_id)
 GROUP BY e.event_id, e.name, e.status, e.starts_at, e.rooms
 ORDER BY e.starts_at, e.event_id`

// Sales counts the seats of the events that are not over since a day, at most 200, by their start. It looks at every seat of
// theirs: not for every request.
func (c *Core) Sales(ctx context.Context) ([]Sale, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	rows, err := c.work.Query(ctx, salesSQL, c.now())
	if err != nil {
		return nil, cause(ctx, err)
	}
	sales, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Sale])
	return sales, cause(ctx, err)
}

// Backlog is what waits in the outbox, as this node measured it a few seconds ago.
func (c *Core) Backlog() outbox.Backlog { return c.relay.Backlog() }

// EventOf returns the event of a booking, whoever's it is; [ErrNoBooking] if there is none.
func (c *Core) EventOf(ctx context.Context, booking uuid.UUID) (event int64, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	err = c.work.QueryRow(ctx, `SELECT event_id FROM bk.booking WHERE booking_id = $1 AND event_id IS NOT NULL`, booking).Scan(&event)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrNoBooking
	}
	return event, cause(ctx, err)
}

const nextSQL = `
SELECT event_id
  FROM bk.event
 WHERE status = 'ON_SALE' AND starts_at > coalesce($2, now()) AND ($1 = ANY (rooms) OR cardinality(rooms) = 0)
 ORDER BY cardinality(rooms) = 0, starts_at, event_id
 LIMIT 1`

// Next returns the event on sale that begins first among those that a waiting room leads to, or else among those that need
// none; [ErrNoEvent] if there is no such event.
func (c *Core) Next(ctx context.Context, room string) (event int64, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	err = c.work.QueryRow(ctx, nextSQL, room, c.now()).Scan(&event)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrNoEvent
	}
	return event, cause(ctx, err)
}
