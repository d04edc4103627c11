package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// leewayMillis is the verifier's leeway: what prelude.lua calls LEEWAY.
const leewayMillis = 2000

// What a join may be refused for.
var (
	// ErrClosed means that the room takes no arrivals: it is closed, or everything is sold.
	ErrClosed = errors.New("queue: the room takes no arrivals")
	// ErrLineFull means that the line holds as many visitors as this store is good for.
	ErrLineFull = errors.New("queue: the line is full")
	// ErrBusy means that more visits wait for a batch than this node keeps.
	ErrBusy = errors.New("queue: too many visits at once")
	// ErrNoRoom means that a visitor can't be admitted at once.
	ErrNoRoom = errors.New("queue: no room to enter at once")
	// ErrUsed means that a place's turn was taken or given up.
	ErrUsed = errors.New("queue: the place is used")
)

// Visitor is who asks for a place. Of an anonymous browser only the place can be known.
type Visitor struct {
	Place   *Place   // the place of its place token
	Digests []string // of its identity, where the room has an identity rule ([Sealer.Digests])
}

// Turn is what Redis says of a place: its spot in the line, or its admission.
type Turn struct {
	Place Place
	Ahead int    // how many stand before it, exact; 0 if admitted
	Grant *Grant // nil while it waits
}

// kinds of visit, as join.lua names them.
const (
	kindJoin  = "j"
	kindAsk   = "a"
	kindEnter = "e"
)

// visit is one request in a batch.
type visit struct {
	kind  string
	fresh string // the id of the place to make
	old   Place
	who   []string
	done  chan struct{}
	turn  Turn
	err   error
}

// Join puts v at the tail of the line, or finds the place it has, and returns it; v may be admitted at once when nobody
// waits. A used place is replaced by a new one. It returns [ErrClosed], [ErrLineFull], [ErrBusy] or [ErrAway].
//
// Arrivals that come while a batch is under way form the next one: no timer, no wait for a lone caller.
func (l *Line) Join(ctx context.Context, v Visitor) (Turn, error) {
	return l.visits.do(ctx, newVisit(kindJoin, v))
}

// Ask asks Redis about a place whose turn may have come; a missing place is put back. [ErrUsed] means that the turn
// was used or given up.
func (l *Line) Ask(ctx context.Context, p Place) (Turn, error) {
	v := Visitor{Place: &p}
	if p.Digest != "" {
		v.Digests = []string{p.Digest}
	}
	return l.visits.do(ctx, newVisit(kindAsk, v))
}

// Enter admits v at once, as a provisional session, or not at all ([ErrNoRoom]).
func (l *Line) Enter(ctx context.Context, v Visitor) (Turn, error) {
	return l.visits.do(ctx, newVisit(kindEnter, v))
}

func newVisit(kind string, v Visitor) *visit {
	w := &visit{kind: kind, fresh: NewID(), who: v.Digests, done: make(chan struct{})}
	if v.Place != nil {
		w.old = *v.Place
	}
	return w
}

// batcher sends the visits of a node in batches, one at a time.
type batcher struct {
	line    *Line
	mu      sync.Mutex
	pending []*visit
	flying  bool
	closed  bool
	flights sync.WaitGroup
}

func (b *batcher) do(ctx context.Context, v *visit) (Turn, error) {
	if b.line.Away() {
		return Turn{}, ErrAway
	}
	if err := b.add(v); err != nil {
		return Turn{}, err
	}
	select {
	case <-v.done:
		return v.turn, v.err
	case <-ctx.Done():
		return Turn{}, context.Cause(ctx)
	}
}

func (b *batcher) add(v *visit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrAway
	}
	if len(b.pending) >= b.line.cfg.Pending {
		return ErrBusy
	}
	b.pending = append(b.pending, v)
	if !b.flying {
		b.flying = true
		b.flights.Go(b.fly)
	}
	return nil
}

// fly sends batches until nobody waits for one.
func (b *batcher) fly() {
	for {
		b.mu.Lock()
		n := min(len(b.pending), b.line.cfg.Batch)
		batch := b.pending[:n:n]
		b.pending = b.pending[n:]
		if n == 0 {
			b.pending, b.flying = nil, false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.line.send(batch)
		for _, v := range batch {
			close(v.done)
		}
	}
}

// close takes no more visits and waits for those that are under way.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.flights.Wait()
}

// send has a batch answered. A call whose outcome is unknown is asked again: the ids are the same, so no visit is
// served twice. Visits whose customer's place changed meanwhile look again.
func (l *Line) send(batch []*visit) {
	ctx := context.Background() // visitors may leave; the batch goes on for the others
	l.cfg.Metrics.batched(len(batch))
	again := false
	for try := 0; len(batch) > 0 && try < 4; try++ {
		err := l.identify(ctx, batch)
		if err == nil {
			var rest []*visit
			rest, err = l.sendOnce(ctx, batch, again)
			if err == nil {
				batch, again = rest, true
				continue
			}
		}
		switch {
		case errors.Is(err, ErrGeneration):
			err = l.refreshOrOpen(ctx)
		case errors.Is(err, ErrAway):
			again = true
		}
		for _, v := range batch {
			v.err = err
		}
		if l.Away() {
			return
		}
	}
	for _, v := range batch {
		if v.err == nil {
			v.err = ErrBusy
		}
	}
}

// identify looks up the places of customers that a room's identity rule knows.
func (l *Line) identify(ctx context.Context, batch []*visit) error {
	pipe := l.rdb.Pipeline()
	found := map[*visit]*redis.SliceCmd{}
	for _, v := range batch {
		if len(v.who) > 0 {
			found[v] = pipe.HMGet(ctx, l.k.who, v.who...)
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := l.reading(ctx, "who", func(ctx context.Context) error { _, err := pipe.Exec(ctx); return err }); err != nil {
		return err
	}
	for v, cmd := range found {
		for _, value := range cmd.Val() {
			if s, ok := value.(string); ok {
				id, score, _ := strings.Cut(s, " ")
				n, err := strconv.ParseInt(score, 10, 64)
				if err != nil {
					return fmt.Errorf("place of a customer in room %s: %w", l.room, err)
				}
				if id != v.old.ID {
					v.old = placeAt(id, n)
				}
				break
			}
		}
	}
	return nil
}

// sendOnce runs join.lua for batch and returns the visits that must look again.
func (l *Line) sendOnce(ctx context.Context, batch []*visit, again bool) ([]*visit, error) {
	e := l.era.Load()
	generation := e.generation
	window := l.clock.Now().UnixMilli() / windowMillis
	used, here := l.k.used(generation), l.k.here(generation, window)
	keys := make([]string, 0, len(l.k.stateToBatch)+2+4*len(batch))
	keys = append(append(keys, l.k.stateToBatch...), used, here)
	args := make([]any, 0, 6+5*len(batch))
	args = append(args, generation, e.highest.Load(), l.cfg.MaxWaiting, flag(again), flag(l.calm()), len(batch))
	for _, v := range batch {
		fresh := l.k.token(v.fresh)
		keys = append(keys, fresh)
		if v.old.ID != "" {
			keys = append(keys, l.k.token(v.old.ID), l.k.used(v.old.Generation), l.k.here(v.old.Generation, window))
		} else {
			keys = append(keys, fresh, used, here)
		}
		digest := ""
		if len(v.who) > 0 {
			digest = v.who[0]
		}
		args = append(args, v.kind, v.fresh, v.old.ID, v.old.Score(), digest)
	}
	answers, err := l.call(ctx, "join", joinScript, keys, args...).Slice()
	if err != nil {
		return nil, err
	}
	if len(answers) != len(batch) {
		return nil, fmt.Errorf("join in room %s: %d answers to %d visits", l.room, len(answers), len(batch))
	}
	var rest []*visit
	for i, v := range batch {
		code, err := v.read(answers[i], l.clock.Now())
		if v.err = err; code == "R" {
			rest = append(rest, v)
		}
		l.sawNumber(v.turn.Place.Generation, v.turn.Place.Number)
		if score := v.turn.Place.Score(); v.turn.Grant != nil && score > l.served.Load() {
			l.served.Store(score) // batches come one after the other
		}
	}
	return rest, nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read takes one answer of join.lua: {code, place id, score, more}.
func (v *visit) read(answer any, now time.Time) (code string, err error) {
	f, ok := answer.([]any)
	if !ok || len(f) != 4 {
		return "", fmt.Errorf("queue: join answered %v", answer)
	}
	code, _ = f[0].(string)
	id, _ := f[1].(string)
	text, _ := f[2].(string)
	score, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return code, fmt.Errorf("queue: join answered a score: %w", err)
	}
	v.turn = Turn{Place: placeAt(id, score)}
	v.turn.Place.Issued = now
	if id == v.old.ID && !v.old.Issued.IsZero() {
		v.turn.Place.Issued = v.old.Issued
	}
	if len(v.who) > 0 {
		v.turn.Place.Digest = v.who[0]
	}
	switch code {
	case "W":
		ahead, _ := f[3].(int64)
		v.turn.Ahead = int(ahead)
	case "A":
		more, _ := f[3].(string)
		r, err := parseRecord(more)
		if err != nil {
			return code, err
		}
		g := r.grant(v.turn.Place)
		v.turn.Grant = &g
	case "E":
		return code, ErrUsed
	case "C":
		return code, ErrClosed
	case "F":
		return code, ErrLineFull
	case "N":
		return code, ErrNoRoom
	case "R":
		return code, nil
	default:
		return code, fmt.Errorf("queue: join answered %v", answer)
	}
	return code, nil
}
