package booking

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Hold holds all the seats that r asks for, or none. replayed says that r's key did it before: the answer is that hold, as
// it stands now.
//
// It returns [*TakenError], [*InvalidError], [*LimitError], [ErrNoEvent], [ErrNotAdmitted], [ErrNotOnSale], [ErrHoldGone]
// (the one to replace), [ErrKeyReuse], [ErrBusy] or [ErrAway].
func (c *Core) Hold(ctx context.Context, r HoldRequest) (b Booking, replayed bool, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, holdTimeout, ErrBusy)
	defer cancel()
	b, replayed, err = c.hold(ctx, r)
	if errors.Is(err, ErrAway) || errors.Is(err, ErrBusy) {
		c.troubled.Store(time.Now().Add(troubledFor).UnixNano())
	}
	c.metrics.hold(outcomeOf(replayed, err), time.Since(began))
	return b, replayed, err
}

// troubledFor is how long after a hold that could not be decided tries are not counted: who is told to try again may do so.
const troubledFor = 5 * time.Second

func (c *Core) hold(ctx context.Context, r HoldRequest) (Booking, bool, error) {
	if r.Customer == "" {
		return Booking{}, false, ErrCustomerMissing
	}
	if err := valid(r.Customer, r.Key); err != nil {
		return Booking{}, false, err
	}
	e, err := c.catalog.event(ctx, r.Event)
	if err != nil {
		return Booking{}, false, err
	}
	if len(e.Rooms) > 0 && !slices.Contains(e.Rooms, r.Room) {
		return Booking{}, false, ErrNotAdmitted
	}
	a, err := newAsk(e, r)
	if err != nil {
		return Booking{}, false, err
	}
	if taken := c.refusedByTable(ctx, e, a); taken != nil {
		return Booking{}, false, taken
	}
	same, known := c.ours.Get(ownKey{r.Customer, r.Key})
	known = known && bytes.Equal(same, a.hash)
	if c.cfg.Limits != nil && e.HoldsPerMin > 0 && !known && time.Now().UnixNano() > c.troubled.Load() {
		if retry, ok := c.cfg.Limits.Allow(ctx, e.ID, r.Customer, e.HoldsPerMin); !ok {
			return Booking{}, false, &LimitError{Retry: retry}
		}
	}
	gated := e.RedisGate && c.cfg.Gate != nil && !known && a.replaces == uuid.Nil
	if gated {
		if taken, err := c.cfg.Gate.Take(ctx, e.ID, a.seats, a.id.String(), e.HoldTTL); err == nil && len(taken) > 0 && !c.knownKey(ctx, a) {
			c.metrics.loser("gate")
			return Booking{}, false, a.taken(taken)
		}
	}
	decided := c.lane(e.ID).decide(ctx, a)
	switch {
	case decided != a: // nobody waits for it any more
		go c.abandoned(e, a, gated)
	case gated:
		c.unmark(e, a)
	}
	return c.held(ctx, e, decided)
}

// abandoned puts away a hold whose caller has left: without a key nobody can come back for it.
func (c *Core) abandoned(e *Event, a *ask, gated bool) {
	<-a.done
	switch {
	case a.outcome == "held" && a.key == nil:
		if err := c.Release(context.Background(), a.hold, a.customer); err != nil {
			c.log.Warn("a hold that nobody waits for stays until it expires", "event", e.ID, "hold", a.hold, "err", err)
		}
	case gated:
		c.unmark(e, a)
	}
}

// unmark takes the marks of a hold back that did not come about.
func (c *Core) unmark(e *Event, a *ask) {
	if a.outcome != "held" {
		c.ungate(e.ID, a.seats, a.id)
	}
}

// knownKey says whether a hold with the request's key exists: then it is not a loser, whatever the gate says.
func (c *Core) knownKey(ctx context.Context, a *ask) bool {
	if a.key == nil {
		return false
	}
	var there bool
	err := c.holds.QueryRow(ctx, `SELECT EXISTS (SELECT FROM bk.booking WHERE customer = $1 AND idempotency_key = $2)`, a.customer, *a.key).Scan(&there)
	return there || err != nil // if in doubt Postgres decides
}

// refusedByTable refuses sure losers from memory.
func (c *Core) refusedByTable(ctx context.Context, e *Event, a *ask) error {
	b := c.boards.get(e)
	if b == nil {
		return nil
	}
	if taken := b.refuses(c, a); len(taken) > 0 {
		c.metrics.loser("table")
		return a.taken(taken)
	}
	b.mu.RLock()
	stale := time.Since(b.loaded) >= boardAge
	b.mu.RUnlock()
	if stale && c.feed != nil && b.refreshing.CompareAndSwap(false, true) {
		go func() {
			defer b.refreshing.Store(false)
			_ = b.read(context.WithoutCancel(ctx), c, boardAge)
		}()
	}
	return nil
}

// held makes the answer of what was decided.
func (c *Core) held(ctx context.Context, e *Event, a *ask) (Booking, bool, error) {
	switch a.outcome {
	case "held":
		if a.key != nil {
			c.ours.Put(ownKey{a.customer, *a.key}, a.hash)
		}
		c.changed(e.ID, change{status: held, seats: a.seats, booking: a.hold, holder: digest(a.customer), until: a.expires.UnixMilli()})
		if a.replaces != uuid.Nil {
			c.changed(e.ID, change{status: free, seats: a.oldSeats, booking: a.replaces})
			c.regate(e, a)
			c.ungate(e.ID, a.oldSeats, a.replaces)
		}
		return Booking{
			ID: a.hold, Event: e.ID, Customer: a.customer, Room: deref(a.room), Status: Held, Items: a.items,
			Amount: Money{a.total, e.Currency}, CreatedAt: a.now, ExpiresAt: a.expires, Now: a.now,
		}, false, nil
	case "replay":
		b, err := c.Booking(ctx, a.hold, a.customer)
		return b, true, err
	case "taken":
		c.metrics.loser("postgres")
		return Booking{}, false, a.taken(a.conflicts)
	case "key_reuse":
		return Booking{}, false, ErrKeyReuse
	case "no_event":
		return Booking{}, false, ErrNoEvent
	case "not_on_sale":
		return Booking{}, false, ErrNotOnSale
	case "too_many":
		return Booking{}, false, &InvalidError{fmt.Sprintf("at most %d seats in one hold", e.MaxSeats)}
	case "hold_gone":
		return Booking{}, false, ErrHoldGone
	case "cap_reached":
		return Booking{}, false, &LimitError{Cap: e.CustomerCap}
	}
	return Booking{}, false, a.err
}

// ask is a hold on its way to Postgres.
type ask struct {
	id       uuid.UUID
	event    int64
	customer string
	room     *string
	session  *string
	seats    []string // sorted
	types    []string // of tickets, beside seats; nil: all standard
	items    []Item
	total    int64
	key      *string
	hash     []byte
	mask     int64
	replaces uuid.UUID
	capped   bool
	wants    []string    // what it may share with no other hold under way
	left     atomic.Bool // its caller has gone
	inDoubt  bool        // a transaction that may have held it ended without an answer

	done chan struct{} // closed once the rest is settled

	outcome   string // "" with err
	hold      uuid.UUID
	expires   time.Time
	now       time.Time
	conflicts []string
	oldSeats  []string // of the hold that was replaced
	err       error
}

func newAsk(e *Event, r HoldRequest) (*ask, error) {
	switch n := len(r.Choices); {
	case n == 0:
		return nil, &InvalidError{"no seat is asked for"}
	case n > e.MaxSeats:
		return nil, &InvalidError{fmt.Sprintf("at most %d seats in one hold", e.MaxSeats)}
	}
	choices := slices.Clone(r.Choices)
	slices.SortFunc(choices, func(a, b Choice) int { return cmp.Compare(a.Seat, b.Seat) })
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	a := &ask{
		id: id, event: e.ID, customer: r.Customer, room: orNil(r.Room), session: orNil(r.Session), key: orNil(r.Key),
		mask: r.Channels.Mask(), replaces: r.Replaces, capped: e.CustomerCap > 0, done: make(chan struct{}),
		seats: make([]string, len(choices)), types: make([]string, len(choices)),
	}
	for i, ch := range choices {
		if i > 0 && ch.Seat == choices[i-1].Seat {
			return nil, &InvalidError{fmt.Sprintf("seat %.40q is asked for twice", ch.Seat)}
		}
		a.seats[i], a.types[i] = ch.Seat, cmp.Or(ch.TicketType, "standard")
	}
	if a.items, a.total, err = e.price(a.seats, a.types); err != nil {
		return nil, err
	}
	if a.key != nil {
		a.hash = a.digest()
	}
	if !slices.ContainsFunc(a.types, func(t string) bool { return t != "standard" }) {
		a.types = nil
	}
	a.claim()
	return a, nil
}

// valid refuses what the tables would refuse.
func valid(customer, key string) error {
	switch {
	case len(customer) > 200 || !utf8.ValidString(customer) || strings.ContainsRune(customer, 0):
		return &InvalidError{"a customer is named by at most 200 bytes of text"}
	case len(key) > 64 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &InvalidError{"a key is 1 to 64 visible ASCII characters"}
	}
	return nil
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// digest tells a retry from another request under the same key.
func (a *ask) digest() []byte {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(a.event))
	_, _ = h.Write(n[:])
	_, _ = h.Write(a.replaces[:])
	for i := range a.seats {
		_, _ = h.Write([]byte(a.seats[i] + "\x00" + a.types[i] + "\x00"))
	}
	return h.Sum(nil)
}

func (a *ask) taken(conflicts []string) error {
	return &TakenError{Event: a.event, Asked: a.seats, Conflicts: conflicts}
}

// settle ends the wait for a.
func (a *ask) settle(outcome string, err error) {
	a.outcome, a.err = outcome, err
	close(a.done)
}

// outcomeOf is the word for the metrics.
func outcomeOf(replayed bool, err error) string {
	switch e := err.(type) {
	case nil:
		if replayed {
			return "replayed"
		}
		return "held"
	case *TakenError:
		return "taken"
	case *InvalidError:
		return "invalid"
	case *LimitError:
		if e.Cap > 0 {
			return "cap_reached"
		}
		return "rate_limited"
	}
	return reason(err)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
