package booking

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"ropeline/internal/recent"
)

// How long a node works with what it knows of an event and of a hall. Postgres judges status and times by itself at every
// hold; what may be this old is the price, the limits and the rooms.
const (
	eventAge  = 2 * time.Second
	layoutAge = time.Minute
	mostKept  = 4096 // events, and halls
)

// catalog knows events and halls.
type catalog struct {
	pool    *pgxpool.Pool
	flight  singleflight.Group
	mu      sync.RWMutex
	events  map[int64]*Event
	absent  *recent.Cache[int64, time.Time] // ids that no event has, and when that was so
	layouts map[int64]*Layout
	read    map[int64]time.Time // when a layout was read
}

func newCatalog(pool *pgxpool.Pool) *catalog {
	return &catalog{pool: pool, absent: recent.New[int64, time.Time](mostKept), events: map[int64]*Event{}, layouts: map[int64]*Layout{}, read: map[int64]time.Time{}}
}

// Event returns an event, at most 2 s old; older while Postgres is away. [ErrNoEvent] if there is none.
func (c *Core) Event(ctx context.Context, id int64) (*Event, error) { return c.catalog.event(ctx, id) }

// Layout returns the seats of an event's hall. It is empty for an event without one.
func (c *Core) Layout(ctx context.Context, id int64) (*Layout, error) {
	e, err := c.catalog.event(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.layout, nil
}

func (k *catalog) event(ctx context.Context, id int64) (*Event, error) {
	k.mu.RLock()
	e := k.events[id]
	k.mu.RUnlock()
	if e != nil && time.Since(e.loaded) < eventAge {
		return e, nil
	}
	if at, known := k.absent.Get(id); known && time.Since(at) < eventAge {
		return nil, ErrNoEvent
	}
	got, err, _ := k.flight.Do("event "+strconv.FormatInt(id, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		return k.load(ctx, id)
	})
	if err == nil {
		return got.(*Event), nil
	}
	if e != nil && !errors.Is(err, ErrNoEvent) {
		return e, nil
	}
	return nil, err
}

const eventSQL = `
SELECT event_id, kind, coalesce(map_id, 0), name, starts_at, venue_tz, currency, status,
       sales_open_at, sales_close_at,
       hold_ttl, checkout_ttl, max_hold_age, max_seats, coalesce(customer_cap, 0), holds_per_min, redis_gate, rooms, late_policy
  FROM bk.event
 WHERE event_id = $1`

func (k *catalog) load(ctx context.Context, id int64) (*Event, error) {
	e := &Event{loaded: time.Now()}
	var opens, closes pgtype.Timestamptz
	err := k.pool.QueryRow(ctx, eventSQL, id).Scan(&e.ID, &e.Kind, &e.Map, &e.Name, &e.StartsAt, &e.Zone, &e.Currency, &e.Status,
		&opens, &closes, &e.HoldTTL, &e.CheckoutTTL, &e.MaxHoldAge, &e.MaxSeats, &e.CustomerCap, &e.HoldsPerMin, &e.RedisGate,
		&e.Rooms, &e.LatePolicy)
	if errors.Is(err, pgx.ErrNoRows) {
		k.mu.Lock()
		delete(k.events, id)
		k.mu.Unlock()
		k.absent.Put(id, e.loaded)
		return nil, ErrNoEvent
	}
	if err != nil {
		return nil, cause(ctx, err)
	}
	if opens.InfinityModifier == pgtype.Finite {
		e.OpensAt = opens.Time
	}
	if closes.InfinityModifier == pgtype.Finite {
		e.ClosesAt = closes.Time
	}
	rows, err := k.pool.Query(ctx, `SELECT tier, ticket_type, amount_minor FROM bk.event_price WHERE event_id = $1 ORDER BY tier, ticket_type`, id)
	if err != nil {
		return nil, cause(ctx, err)
	}
	if e.Prices, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Price]); err != nil {
		return nil, cause(ctx, err)
	}
	e.prices = make(map[[2]string]int64, len(e.Prices))
	for _, p := range e.Prices {
		e.prices[[2]string{p.Tier, p.TicketType}] = p.Amount
	}
	if e.layout, err = k.layout(ctx, e.Map); err != nil {
		return nil, err
	}
	k.mu.Lock()
	if len(k.events) >= mostKept {
		clear(k.events)
	}
	k.events[id] = e
	k.mu.Unlock()
	return e, nil
}

const layoutSQL = `
SELECT seat_code, section, row_key, pos, tier, rank, x, y, accessible
  FROM bk.map_seat
 WHERE map_id = $1
 ORDER BY section, row_key, pos`

func (k *catalog) layout(ctx context.Context, id int64) (*Layout, error) {
	k.mu.RLock()
	l, read := k.layouts[id], k.read[id]
	k.mu.RUnlock()
	if l != nil && time.Since(read) < layoutAge {
		return l, nil
	}
	began := time.Now()
	l = &Layout{Map: id}
	if id != 0 {
		if err := k.pool.QueryRow(ctx, `SELECT name FROM bk.map WHERE map_id = $1`, id).Scan(&l.Name); err != nil {
			return nil, cause(ctx, err)
		}
		rows, err := k.pool.Query(ctx, layoutSQL, id)
		if err != nil {
			return nil, cause(ctx, err)
		}
		if l.Seats, err = pgx.CollectRows(rows, pgx.RowToStructByPos[LayoutSeat]); err != nil {
			return nil, cause(ctx, err)
		}
	}
	l.index = make(map[string]int32, len(l.Seats))
	for i, s := range l.Seats {
		l.index[s.Code] = int32(i)
	}
	k.mu.Lock()
	if len(k.layouts) >= mostKept {
		clear(k.layouts)
		clear(k.read)
	}
	k.layouts[id], k.read[id] = l, began
	k.mu.Unlock()
	return l, nil
}

// Seat returns where a seat stands; ok is false for one that the hall hasn't.
func (l *Layout) Seat(code string) (s LayoutSeat, ok bool) {
	i, ok := l.index[code]
	if !ok {
		return LayoutSeat{}, false
	}
	return l.Seats[i], true
}

// price of each choice, in the order of seats.
func (e *Event) price(seats []string, types []string) (items []Item, total int64, err error) {
	items = make([]Item, len(seats))
	for i, code := range seats {
		s, ok := e.layout.Seat(code)
		if !ok {
			return nil, 0, &InvalidError{fmt.Sprintf("event %d has no seat %.40q", e.ID, code)}
		}
		amount, ok := e.prices[[2]string{s.Tier, types[i]}]
		if !ok {
			return nil, 0, &InvalidError{fmt.Sprintf("event %d sells no %.40q tickets for seat %s", e.ID, types[i], code)}
		}
		items[i] = Item{Seat: code, Tier: s.Tier, TicketType: types[i], Amount: amount}
		total += amount
	}
	return items, total, nil
}
