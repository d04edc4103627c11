package booking

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A lane is the way of one event's holds into Postgres, on one node: holds that arrive while a transaction is under way
// share the next one. There is no timer and nothing to wait for while nobody is under way. When many wait, a second
// transaction flies beside the first, so that one core of Postgres works while another one's answer is on its way.
//
// Within a batch each hold is all or nothing by itself. Two that want the same seat are never under way at once: the one that
// came first goes first. A batch never waits for a seat's lock; a hold that meets one is decided by itself, beside the lane,
// so that a lock that hangs delays only those who want that seat.
type lane struct {
	core  *Core
	event int64

	mu      sync.Mutex
	waiting []*ask
	claims  map[string]struct{} // what those under way want
	flights int
	alone   chan struct{} // a slot for each hold of the event that is decided by itself
}

const (
	mostFlights = 2
	secondFrom  = 32                    // holds that must wait for a second flight to be worth it
	patience    = 10 * time.Millisecond // after this a hold that flies alone keeps nobody else on the ground
)

// mostWaiting bounds the holds of one event that wait on a node.
const mostWaiting = 8192

// lane returns the lane of an event.
func (c *Core) lane(event int64) *lane {
	c.lanesMu.Lock()
	defer c.lanesMu.Unlock()
	l := c.lanes[event]
	if l == nil {
		if len(c.lanes) >= mostKept {
			for id, old := range c.lanes {
				if old.idle() {
					delete(c.lanes, id)
				}
			}
		}
		l = &lane{core: c, event: event, claims: map[string]struct{}{}, alone: make(chan struct{}, max(1, cap(c.alone)-1))}
		c.lanes[event] = l
	}
	return l
}

func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flights == 0 && len(l.waiting) == 0 && len(l.claims) == 0
}

// decide settles a and returns it. When ctx ends first it returns a stand-in without an outcome; the hold may still come
// about, and then is its caller's to put away.
func (l *lane) decide(ctx context.Context, a *ask) *ask {
	if a.replaces != uuid.Nil { // a swap locks its old hold first: by itself
		go l.core.decideAlone(l.alone, a)
	} else if !l.board(a) {
		a.settle("", ErrBusy)
	}
	select {
	case <-a.done:
		return a
	case <-ctx.Done():
		a.left.Store(true)
		return &ask{err: context.Cause(ctx)}
	}
}

// board queues a, and has it fly if that can be now.
func (l *lane) board(a *ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= mostWaiting {
		return false
	}
	l.waiting = append(l.waiting, a)
	l.depart()
	return true
}

// depart starts a flight if there is reason to. l.mu is held.
func (l *lane) depart() {
	if len(l.waiting) == 0 || l.flights >= mostFlights || l.flights > 0 && len(l.waiting) < secondFrom {
		return
	}
	batch := l.next()
	if len(batch) == 0 {
		return // all want what somebody under way wants
	}
	l.flights++
	go l.fly(batch)
}

// fly has a batch decided, and starts the next one.
func (l *lane) fly(batch []*ask) {
	landed := false
	land := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !landed {
			landed = true
			l.flights--
			l.depart()
		}
	}
	var early *time.Timer
	if len(batch) == 1 {
		early = time.AfterFunc(patience, land)
	}
	l.core.decideBatch(l, batch)
	if early != nil {
		early.Stop()
	}
	land()
}

// release gives up what a wanted, once it is settled.
func (l *lane) release(a *ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range a.wants {
		delete(l.claims, w)
	}
	if l.flights == 0 {
		l.depart()
	}
}

// next takes a batch: in order of arrival, nobody who wants the same seat, or brings the same key, as one under way or one
// before them, nor, under a cap, two of one customer. l.mu is held.
func (l *lane) next() []*ask {
	var batch, left []*ask
	var after map[string]struct{} // what those who stay behind want
	for i, a := range l.waiting {
		if a.left.Load() { // nobody waits for it any more
			a.settle("", ErrBusy)
			continue
		}
		if len(batch) == l.core.cfg.MaxBatch {
			left = append(left, l.waiting[i:]...)
			break
		}
		clash := false
		for _, w := range a.wants {
			_, claimed := l.claims[w]
			_, wanted := after[w]
			clash = clash || claimed || wanted
		}
		if !clash {
			for _, w := range a.wants {
				l.claims[w] = struct{}{}
			}
			batch = append(batch, a)
			continue
		}
		if after == nil {
			after = map[string]struct{}{}
		}
		for _, w := range a.wants {
			after[w] = struct{}{}
		}
		left = append(left, a)
	}
	l.waiting = left
	return batch
}

// claim notes what a may share with no other hold under way.
func (a *ask) claim() {
	a.wants = a.seats
	if a.key != nil || a.capped {
		a.wants = slices.Clone(a.seats)
	}
	if a.key != nil {
		a.wants = append(a.wants, "key\x00"+a.customer+"\x00"+*a.key)
	}
	if a.capped {
		a.wants = append(a.wants, "customer\x00"+a.customer)
	}
}

// holdTimeout is how long a hold may take in Postgres, its wait for a connection included.
const holdTimeout = 5 * time.Second

// decideBatch settles every ask of a batch, those that the batch leaves open beside the lane. Each is released once it
// is settled. It returns when the batch is through; a batch of one also waits for what comes after.
func (c *Core) decideBatch(l *lane, batch []*ask) {
	event, release := l.event, l.release
	ctx, cancel := context.WithTimeout(context.Background(), holdTimeout)
	defer cancel()
	c.metrics.batch(len(batch))
	if len(batch) == 1 {
		if free := slot(l.alone, c.alone); free != nil { // the shorter way for one, but it may wait for a lock
			c.decideIn(ctx, batch[0])
			free()
			release(batch[0])
			return
		}
	}
	err := c.runBatch(ctx, event, batch)
	if broken(err) {
		c.log.Error("a batch of holds broke a rule of the schema", "event", event, "err", err)
		c.metrics.broken.Inc()
	}
	for _, a := range batch {
		if a.outcome != "" {
			release(a)
			close(a.done)
			continue
		}
		if err != nil {
			if away := cause(ctx, err); errors.Is(away, ErrAway) && !connected(err) {
				release(a)
				a.settle("", away) // nobody is there: asking one by one would only take longer
				continue
			}
			a.inDoubt = true
		}
		go func() {
			c.decideAlone(l.alone, a)
			release(a)
		}()
	}
}

// slot takes a place in both, if that can be now, and returns what gives it back; nil if not.
func slot(own, all chan struct{}) (free func()) {
	select {
	case own <- struct{}{}:
	default:
		return nil
	}
	select {
	case all <- struct{}{}:
		return func() { <-all; <-own }
	default:
		<-own
		return nil
	}
}

// connected says that a connection was there when the error came about, so that the transaction may have been committed.
func connected(err error) bool { return code(err) != "" || closed(err) }

const batchSQL = `
SELECT hold_ids, outcome, expires_at, conflicts, coalesce($15, now())
  FROM bk.hold_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

// runBatch asks for a whole batch in one statement, and notes what came of each.
func (c *Core) runBatch(ctx context.Context, event int64, batch []*ask) error {
	n := len(batch)
	ids := make(pgtype.FlatArray[pgtype.UUID], n)
	customers, amounts, masks, wants := make([]string, n), make([]int64, n), make([]int64, n), make([]int32, n)
	rooms, sessions, keys := make(pgtype.FlatArray[pgtype.Text], n), make(pgtype.FlatArray[pgtype.Text], n), make(pgtype.FlatArray[pgtype.Text], n)
	hashes := make([][]byte, n)
	items, types := make([]string, n), make(pgtype.FlatArray[pgtype.Text], n)
	req, seats := make([]int32, 0, n), make([]string, 0, n)
	byID := make(map[uuid.UUID]*ask, n)
	for i, a := range batch {
		ids[i] = pgtype.UUID{Bytes: a.id, Valid: true}
		customers[i], amounts[i], masks[i], wants[i] = a.customer, a.total, a.mask, int32(len(a.seats))
		rooms[i], sessions[i], keys[i], hashes[i] = text(a.room), text(a.session), text(a.key), a.hash
		items[i] = "{" + strings.Join(a.seats, ",") + "}" // codes need no quoting
		if a.types != nil {
			types[i] = pgtype.Text{String: arrayText(a.types), Valid: true}
		}
		for _, seat := range a.seats {
			req, seats = append(req, int32(i+1)), append(seats, seat)
		}
		byID[a.id] = a
	}
	began := time.Now()
	rows, err := c.holds.Query(ctx, batchSQL, event, ids, customers, rooms, sessions, amounts, keys, hashes, masks, wants, items, types, req, seats, c.now())
	if err != nil {
		return err
	}
	defer rows.Close()
	var settle []func() // only once the commit is known: rows come before it
	for rows.Next() {
		var held pgtype.FlatArray[pgtype.UUID]
		var outcome string
		var until *time.Time
		var now time.Time
		var conflicts []string
		if err := rows.Scan(&held, &outcome, &until, &conflicts, &now); err != nil {
			return err
		}
		settle = append(settle, func() {
			c.clock.saw(began, time.Now(), now)
			for _, id := range held {
				a := byID[id.Bytes]
				if outcome == "held" {
					a.hold, a.expires, a.now = a.id, *until, now
				}
				a.conflicts, a.outcome = conflicts, outcome
			}
		})
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, do := range settle {
		do()
	}
	return nil
}

var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayText is the text of an array of texts, as Postgres reads it.
func arrayText(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = `"` + quoting.Replace(s) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

func text(s *string) pgtype.Text {
	if s == nil {
		return pgtype.Text{}
	}
	return pgtype.Text{String: *s, Valid: true}
}

const holdSQL = `
SELECT outcome, hold_id, expires_at, conflicts, coalesce($13, now()),
       (SELECT items FROM bk.booking WHERE booking_id = $12)
  FROM bk.hold_seats($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

// decideAlone settles a by a statement of its own, which waits for locks, once there is a slot for it. A deadlock or a
// serialization failure is tried once more.
//
// The event's own slots, one fewer than there are in all, keep an event whose seats hang from stopping the others.
func (c *Core) decideAlone(own chan struct{}, a *ask) {
	ctx, cancel := context.WithTimeout(context.Background(), holdTimeout)
	defer cancel()
	for _, slots := range []chan struct{}{own, c.alone} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			a.settle("", ErrBusy)
			return
		}
	}
	if a.left.Load() {
		a.settle("", ErrBusy)
		return
	}
	c.decideIn(ctx, a)
}

// decideIn settles a, in a slot that the caller has.
func (c *Core) decideIn(ctx context.Context, a *ask) {
	outcome, err := c.runAlone(ctx, a)
	if retryable(err) {
		time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond)
		outcome, err = c.runAlone(ctx, a)
	}
	if broken(err) {
		c.log.Error("a hold broke a rule of the schema", "event", a.event, "err", err)
		c.metrics.broken.Inc()
	}
	if err != nil {
		outcome = "" // nothing is known of it
	}
	a.settle(outcome, cause(ctx, err))
}

func (c *Core) runAlone(ctx context.Context, a *ask) (outcome string, err error) {
	if a.inDoubt {
		if there, err := c.ownHold(ctx, a); err != nil {
			return "", err
		} else if there {
			return "held", nil
		}
	}
	if !a.capped && a.replaces == uuid.Nil {
		err := c.holds.QueryRow(ctx, holdOneSQL, a.id, a.event, a.seats, a.types, a.customer, a.room, a.session, a.total, a.key, a.hash, a.mask,
			c.now()).Scan(&a.expires, &a.now, nil)
		if err == nil {
			a.hold = a.id
			return "held", nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return "", err
		}
	}
	var replaces, hold *uuid.UUID
	if a.replaces != uuid.Nil {
		replaces = &a.replaces
	}
	var expires *time.Time
	err = c.holds.QueryRow(ctx, holdSQL, a.id, a.event, a.seats, a.types, a.customer, a.room, a.session, a.total, a.key, a.hash, a.mask,
		replaces, c.now()).Scan(&outcome, &hold, &expires, &a.conflicts, &a.now, &a.oldSeats)
	if err != nil {
		return "", err
	}
	if hold != nil {
		a.hold = *hold
	}
	if expires != nil {
		a.expires = *expires
	}
	if a.inDoubt && outcome == "taken" { // perhaps by itself, a moment ago
		if there, err := c.ownHold(ctx, a); err != nil {
			return "", err
		} else if there {
			return "held", nil
		}
	}
	return outcome, nil
}

// ownHold looks for a hold by its own id.
func (c *Core) ownHold(ctx context.Context, a *ask) (there bool, err error) {
	err = c.holds.QueryRow(ctx, `SELECT booking_id, expires_at, created_at FROM bk.booking WHERE booking_id = $1`, a.id).Scan(&a.hold, &a.expires, &a.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
