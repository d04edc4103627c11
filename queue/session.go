package queue

import (
	"context"
	"errors"
	"time"
)

// Leave gives up a place: it leaves the line, or ends the session it was exchanged for, whose access token ends at
// expires (zero where the caller does not know). From then on this node refuses it; the others do within the age of
// their snapshot. Safe to repeat. ended tells whether a session was running.
func (l *Line) Leave(ctx context.Context, p Place, expires time.Time) (ended bool, err error) {
	now := l.clock.Now()
	l.gone.add(p.ID, later(expires, now.Add(goneFor)), now)
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

// Renew lengthens a session by length from now, up to most from its start; a provisional one becomes a full one. The
// grant never ends earlier than before. It returns [ErrUsed] if the session is over.
func (l *Line) Renew(ctx context.Context, p Place, started time.Time, length, most time.Duration) (Grant, error) {
	var text string
	err := l.inGeneration(ctx, func(generation int64) (err error) {
		text, err = l.call(ctx, "renew", renewScript, l.k.with(l.k.token(p.ID), l.k.used(p.Generation)),
			generation, p.ID, p.Score(), length.Milliseconds(), started.UnixMilli(), most.Milliseconds()).Text()
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

// inGeneration runs work in this node's generation, and once more if Redis had moved on to another.
func (l *Line) inGeneration(ctx context.Context, work func(generation int64) error) error {
	err := work(l.generation.Load())
	if errors.Is(err, ErrGeneration) {
		if err = l.refreshOrOpen(ctx); err == nil {
			err = work(l.generation.Load())
		}
	}
	return err
}
