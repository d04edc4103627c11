package booking

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/outbox"
	"ropeline/internal/recent"
)

// A board is what a node knows of an event's seats: the table in front of holds, and the source of the seat map.
//
// It is fed by this node's own results and by the events of all nodes. It never grants. It refuses a hold only for a seat
// that it knows to be somebody else's now, and only while the feed is fresh; so it may be wrong for as long as an event takes
// to arrive, and is silent otherwise.
type board struct {
	event  int64
	layout *Layout

	refreshing atomic.Bool

	mu        sync.RWMutex
	born      time.Time
	customers map[uint64]struct{} // who has held anything since the board was born
	seats     []spot              // by index in the layout
	gone      *recent.Cache[uuid.UUID, struct{}]
	loaded    time.Time // when the seats were last read from Postgres; zero: never
	used      time.Time
	pending   []change // events that came while the seats were being read
	reading   bool
	maps      [2]*SeatMap
}

// spot is one seat.
type spot struct {
	status  byte      // of statusNames
	channel int16     // sales channel
	holder  uint64    // digest of the customer's name, 0 = not known
	booking uuid.UUID // zero while free or blocked
	until   int64     // end of the hold, ms since the Unix epoch
}

const (
	free byte = iota
	held
	sold
	blocked
	absent // the event doesn't sell it
)

var statusNames = [...]string{"AVAILABLE", "HELD", "SOLD", "BLOCKED", ""}

// digests of customers' names are this process's own.
var digestSeed = maphash.MakeSeed()

func digest(customer string) uint64 {
	if customer == "" {
		return 0
	}
	return maphash.String(digestSeed, customer) | 1
}

// change is what an event says of seats.
type change struct {
	status  byte
	seats   []string
	booking uuid.UUID
	holder  uint64
	until   int64
}

// boards are those of the events that were asked about lately.
type boards struct {
	core *Core
	mu   sync.RWMutex
	of   map[int64]*board
}

const (
	boardIdle   = 10 * time.Minute // a board that nobody asks for goes
	boardAge    = time.Minute      // and one that is used is read anew, whatever the events said
	boardBlind  = time.Second      // much sooner where no event would arrive
	mostBoards  = 1024
	refusalSlip = 50 * time.Millisecond // how far our idea of the database's clock may be off, to the visitor's advantage
)

func newBoards(c *Core) *boards { return &boards{core: c, of: map[int64]*board{}} }

// get returns the board of an event; nil for one without a hall.
func (bs *boards) get(e *Event) *board {
	bs.mu.RLock()
	b := bs.of[e.ID]
	bs.mu.RUnlock()
	if b != nil && b.shows(e.layout) {
		return b
	}
	if len(e.layout.Seats) == 0 {
		return nil
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b = bs.of[e.ID]; b == nil || !b.shows(e.layout) {
		b = &board{
			event: e.ID, layout: e.layout, born: time.Now(), used: time.Now(),
			customers: map[uint64]struct{}{}, gone: recent.New[uuid.UUID, struct{}](4096),
		}
		if len(bs.of) >= mostBoards {
			bs.tidy(0)
		}
		bs.of[e.ID] = b
	}
	return b
}

// shows says whether the board is one of this hall. A hall that was read anew and did not change takes its old one's place.
func (b *board) shows(l *Layout) bool {
	b.mu.RLock()
	old := b.layout
	b.mu.RUnlock()
	if old == l {
		return true
	}
	if !old.same(l) {
		return false
	}
	b.mu.Lock()
	b.layout = l
	b.mu.Unlock()
	return true
}

func (l *Layout) same(other *Layout) bool {
	if len(l.Seats) != len(other.Seats) {
		return false
	}
	for i := range l.Seats {
		if l.Seats[i].Code != other.Seats[i].Code {
			return false
		}
	}
	return true
}

// tidy drops boards that were not used for idle. bs.mu is held.
func (bs *boards) tidy(idle time.Duration) {
	for id, b := range bs.of {
		b.mu.RLock()
		old := time.Since(b.used) >= idle
		b.mu.RUnlock()
		if old {
			delete(bs.of, id)
		}
	}
}

// forget makes the board of key, or every board for "", be read anew before it is used again: events were missed.
func (bs *boards) forget(key string) {
	id, err := strconv.ParseInt(key, 10, 64)
	bs.mu.RLock()
	defer bs.mu.RUnlock()
	for event, b := range bs.of {
		if key != "" && (err != nil || event != id) {
			continue
		}
		b.mu.Lock()
		b.loaded = time.Time{}
		b.mu.Unlock()
	}
}

// fresh says whether what other nodes did to an event arrives here.
func (c *Core) fresh(event int64) bool {
	return c.feed != nil && c.feed.Fresh(strconv.FormatInt(event, 10))
}

// retried is how long after its birth a board leaves requests with a key to Postgres: it can't know who has held before.
const retried = 2 * time.Minute

// refuses returns the seats that are surely not to be had: that are blocked, or held or sold by another customer, at this
// moment. None, if the board can't be trusted now, or if this may be a retry of what succeeded: Postgres knows.
func (b *board) refuses(c *Core, a *ask) []string {
	now, known := c.clock.read()
	if !known || !c.fresh(b.event) {
		return nil
	}
	t := now.Add(refusalSlip).UnixMilli()
	me := digest(a.customer)
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.loaded.IsZero() {
		return nil
	}
	if a.key != nil {
		if _, before := b.customers[me]; before || time.Since(b.born) < retried {
			return nil
		}
	}
	var taken []string
	for _, code := range a.seats {
		i, ok := b.layout.index[code]
		if !ok {
			return nil
		}
		s := &b.seats[i]
		lost := s.status == sold || s.status == blocked || s.status == held && s.until > t
		if lost && s.holder == me && s.status != blocked && a.replaces == s.booking {
			lost = false
		}
		if lost || a.mask>>uint(s.channel)&1 == 0 {
			taken = append(taken, code)
		}
	}
	return taken
}

// apply makes a change, or keeps it for when the seats have been read.
func (b *board) apply(ch change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading {
		b.pending = append(b.pending, ch)
	}
	if ch.holder != 0 {
		b.customers[ch.holder] = struct{}{}
	}
	if !b.loaded.IsZero() {
		b.set(ch)
	}
}

// set makes a change. b.mu is held.
func (b *board) set(ch change) {
	if ch.status == held {
		if _, over := b.gone.Get(ch.booking); over {
			return // told late: we know that it has ended since
		}
	} else if ch.status == free {
		b.gone.Put(ch.booking, struct{}{})
	}
	for _, code := range ch.seats {
		i, ok := b.layout.index[code]
		if !ok {
			continue
		}
		s := &b.seats[i]
		if ch.status == free {
			if s.booking != ch.booking || s.status != held && s.status != sold {
				continue // somebody else's by now
			}
			*s = spot{status: free, channel: s.channel}
			continue
		}
		if ch.status == sold && s.booking == ch.booking && ch.holder == 0 {
			ch.holder = s.holder
		}
		*s = spot{status: ch.status, channel: s.channel, holder: ch.holder, booking: ch.booking, until: ch.until}
	}
}

const boardSQL = `
SELECT s.seat_code, s.status, s.channel, s.booking_id, s.hold_expires_at, b.customer
  FROM bk.seat s
  LEFT JOIN bk.booking b USING (booking_id)
 WHERE s.event_id = $1`

// read reads the seats from Postgres, unless that was done within age. Events that arrive meanwhile are applied on top: each
// says how seats stand after it, so one that is in the snapshot already changes nothing for long.
func (b *board) read(ctx context.Context, c *Core, age time.Duration) error {
	b.mu.RLock()
	recently := !b.loaded.IsZero() && time.Since(b.loaded) < age
	b.mu.RUnlock()
	if recently {
		return nil
	}
	_, err, _ := c.catalog.flight.Do("board "+strconv.FormatInt(b.event, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, b.load(ctx, c)
	})
	return err
}

func (b *board) load(ctx context.Context, c *Core) error {
	b.mu.Lock()
	b.reading, b.pending = true, nil
	layout := b.layout
	b.mu.Unlock()
	began := time.Now()
	seats, err := c.readSeats(ctx, b.event, layout)
	b.mu.Lock()
	defer b.mu.Unlock()
	pending := b.pending
	b.reading, b.pending = false, nil
	if err != nil {
		return cause(ctx, err)
	}
	b.seats, b.loaded = seats, began
	for _, ch := range pending {
		b.set(ch)
	}
	return nil
}

func (c *Core) readSeats(ctx context.Context, event int64, layout *Layout) ([]spot, error) {
	seats := make([]spot, len(layout.Seats))
	for i := range seats {
		seats[i].status = absent
	}
	rows, err := c.work.Query(ctx, boardSQL, event)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var code, status string
		var customer *string
		var s spot
		var id *uuid.UUID
		var until *time.Time
		if err := rows.Scan(&code, &status, &s.channel, &id, &until, &customer); err != nil {
			return nil, err
		}
		i, ok := layout.index[code]
		if !ok {
			continue
		}
		s.status = byte(max(0, slices.Index(statusNames[:], status)))
		if id != nil {
			s.booking = *id
		}
		if until != nil {
			s.until = until.UnixMilli()
		}
		if customer != nil {
			s.holder = digest(*customer)
		}
		seats[i] = s
	}
	return seats, rows.Err()
}

// told takes an event of any node.
func (c *Core) told(ev outbox.Event) {
	if ev.Topic == "inventory-changed" && ev.AggregateType == "event" {
		c.seatsTold(ev)
	}
	if c.cfg.On != nil {
		c.cfg.On(ev)
	}
}

func (c *Core) seatsTold(ev outbox.Event) {
	var p struct {
		Event int64     `json:"event_id"`
		Hold  uuid.UUID `json:"hold_id"`
		Seats []string  `json:"seats"`
		Owner string    `json:"customer"`
		Holds []struct {
			Hold    uuid.UUID `json:"hold_id"`
			Seats   []string  `json:"seats"`
			Expires time.Time `json:"expires_at"`
			Owner   string    `json:"customer"`
		} `json:"holds"`
	}
	if err := json.Unmarshal(ev.Payload, &p); err != nil {
		c.log.Error("event not understood", "type", ev.Type, "id", ev.ID, "err", err)
		return
	}
	ch := change{seats: p.Seats, booking: p.Hold, holder: digest(p.Owner)}
	switch ev.Type {
	case "SeatsHeld":
		for _, h := range p.Holds {
			c.changed(p.Event, change{status: held, seats: h.Seats, booking: h.Hold, holder: digest(h.Owner), until: h.Expires.UnixMilli()})
		}
		return
	case "SeatsSold":
		ch.status = sold
	case "SeatsReleased":
		ch.status = free
		if c.gated(p.Event) { // beside the feed, which must not wait for Redis
			select {
			case c.drops <- func() { c.ungate(p.Event, p.Seats, p.Hold) }:
			default:
			}
		}
	case "SeatsChanged": // by whoever runs the event: what is on sale, not who has it
		c.boards.forget(ev.Key)
		return
	default:
		return
	}
	c.changed(p.Event, ch)
}

// changed tells the board of an event, if there is one.
func (c *Core) changed(event int64, ch change) {
	c.boards.mu.RLock()
	b := c.boards.of[event]
	c.boards.mu.RUnlock()
	if b != nil {
		b.apply(ch)
	}
}
