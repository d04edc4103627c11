package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Leave gives up a place: it leaves the line, or ends the session it was exchanged for, whose access token ends at
// expires (zero where the caller does not know). From then on this node refuses it; the others do within the age of
// their snapshot. Safe to repeat. ended tells whether a session was running. The end of a session is written later if Redis
// does not answer now; a place in line stays what it was.
func (l *Line) Leave(ctx context.Context, p Place, expires time.Time) (ended bool, err error) {
	now := l.clock.Now()
	l.gone.add(p.ID, later(expires, now.Add(goneFor)), now)
	ended, err = l.leave(ctx, p, expires)
	switch {
	case err == nil:
	case expires.IsZero():
		l.gone.drop(p.ID) // it still stands in line
	case errors.Is(err, ErrAway):
		l.owed.add(func(o *owed) { o.ended[p.ID] = Session{Place: p, Ends: expires} })
		return true, nil
	}
	return ended, err
}

func (l *Line) leave(ctx context.Context, p Place, expires time.Time) (ended bool, err error) {
	var ends int64
	if !expires.IsZero() {
		ends = expires.UnixMilli()
	}
	err = l.inGeneration(ctx, func(generation int64) error {
		n, err := l.call(ctx, "leave", leaveScript, l.k.with(l.k.token(p.ID), l.k.used(p.Generation)),
			generation, p.ID, p.Score(), ends, p.Digest).Int()
		ended = n == 1
		return err
	})
	return ended, err
}

// goneFor is how long a node tells who gave up a place and asks again that it is gone; after that Redis tells.
const goneFor = 10 * time.Minute

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Session is an admitted visitor's session, as its access token has it.
type Session struct {
	Place   Place
	Started time.Time
	Ends    time.Time
}

// Renew lengthens a session by length from now, up to most from its start; a provisional one becomes a full one. The
// grant never ends earlier than s does. [ErrUsed] means that the session has ended.
//
// With Redis away the node decides by itself, and writes the session back when Redis answers again.
func (l *Line) Renew(ctx context.Context, s Session, length, most time.Duration) (Grant, error) {
	if l.Away() {
		return l.renewAlone(s, length, most), nil
	}
	grant, err := l.renew(ctx, s, length, most)
	if errors.Is(err, ErrAway) {
		return l.renewAlone(s, length, most), nil
	}
	return grant, err
}

func (l *Line) renew(ctx context.Context, s Session, length, most time.Duration) (Grant, error) {
	p := s.Place
	var text string
	err := l.inGeneration(ctx, func(generation int64) (err error) {
		text, err = l.call(ctx, "renew", renewScript, l.k.with(l.k.token(p.ID), l.k.used(p.Generation)),
			generation, p.ID, p.Score(), length.Milliseconds(), s.Started.UnixMilli(), most.Milliseconds(), s.Ends.UnixMilli()).Text()
		return err
	})
	if err != nil {
		return Grant{}, err
	}
	if text == "" {
		return Grant{}, ErrUsed
	}
	r, err := parseRecord(text)
	if err != nil {
		return Grant{}, err
	}
	return r.grant(p), nil
}

// owed is what this node has decided while Redis was away and must still write: sessions lengthened, and ended.
type owed struct {
	mu            sync.Mutex
	longer, ended map[string]Session
}

func (o *owed) add(put func(*owed)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	put(o)
}

func (l *Line) renewAlone(s Session, length, most time.Duration) Grant {
	now := l.clock.Now().Truncate(time.Second)
	longest := s.Started.Add(most)
	if ends := now.Add(length); ends.Before(longest) {
		longest = ends
	}
	s.Ends = later(s.Ends, longest)
	l.owed.add(func(o *owed) { o.longer[s.Place.ID] = s })
	return Grant{Place: s.Place, Issued: now, Started: s.Started, Expires: s.Ends}
}

// settle writes what this node owes Redis.
func (l *Line) settle(ctx context.Context) error {
	err := l.pay(l.owed.longer, func(s Session) error {
		_, err := l.renew(ctx, s, 0, 0)
		return err
	})
	if err != nil {
		return err
	}
	return l.pay(l.owed.ended, func(s Session) error {
		_, err := l.leave(ctx, s.Place, s.Ends)
		return err
	})
}

func (l *Line) pay(debts map[string]Session, write func(Session) error) error {
	l.owed.mu.Lock()
	sessions := slices.Collect(maps.Values(debts))
	l.owed.mu.Unlock()
	for _, s := range sessions {
		if err := write(s); err != nil && !errors.Is(err, ErrUsed) {
			return err
		}
		l.owed.mu.Lock()
		if debts[s.Place.ID] == s {
			delete(debts, s.Place.ID)
		}
		l.owed.mu.Unlock()
	}
	return nil
}

// inGeneration runs work in this node's generation, and once more if Redis had moved on to another.
func (l *Line) inGeneration(ctx context.Context, work func(generation int64) error) error {
	err := work(l.era.Load().generation)
	if errors.Is(err, ErrGeneration) {
		if err = l.refreshOrOpen(ctx); err == nil {
			err = work(l.era.Load().generation)
		}
	}
	return err
}
