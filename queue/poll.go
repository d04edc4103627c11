package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// State is what a visitor is told about its place.
type State string

// The states of a place.
const (
	BeforeOpening State = "before_opening"
	Waiting       State = "waiting"
	Admitted      State = "admitted"
	PausedState   State = "paused"
	ClosedState   State = "closed"
	FullState     State = "full"
	Holding       State = "holding" // Redis is away: the place is safe, its position is the last one known
	Expired       State = "expired" // the turn was used or given up
)

// Report is the answer to a join or a poll.
type Report struct {
	State     State
	Place     Place
	Ahead     int           // how many stand before it; -1 where nobody may know (before the opening) or none does
	Wait      Range         // estimate of the wait that is left; zero where unknown
	PollAfter time.Duration // when to ask again; 0 once admitted or expired
	Waiting   int           // how many wait in all
	OpensAt   time.Time     // zero where the room is open
	Reason    string        // why the room is paused, closed or full
	Grant     *Grant        // the admission, if admitted
}

// Poll answers from memory where it can, and asks Redis only when the turn of p has come, when p should stand in the
// snapshot and does not, or when there is no snapshot to trust. It marks p as present. Nothing is lost by an error: the place
// stays as it is.
func (l *Line) Poll(ctx context.Context, p Place) (Report, error) {
	s := l.snapshot.Load()
	l.sawNumber(p.Generation, p.Number) // also where Redis has lost it
	switch {
	case l.gone.has(p.ID):
		return Report{State: Expired, Place: p, Ahead: -1}, nil
	case l.Away():
		return l.hold(s, p), nil
	case s != nil && !l.paused() && p.Score() > l.served.Load() && !s.Reached(p.Score()) && !s.Lacks(p.Score()):
		ahead := l.shown.clamp(p, s.Ahead(p.Score()), false)
		return l.report(s, p, ahead), nil
	}
	turn, err := l.askOnce(ctx, p)
	switch {
	case errors.Is(err, ErrUsed):
		return Report{State: Expired, Place: p, Ahead: -1}, nil
	case errors.Is(err, ErrAway):
		return l.hold(s, p), nil
	case err != nil:
		return Report{}, err
	}
	return l.Report(turn), nil
}

// asked is the end of a place: its admission, or ErrUsed. Redis is not asked about it again for askedFor.
type asked struct {
	turn Turn
	err  error
	at   time.Time
}

const askedFor = time.Second

// askOnce is Ask for a place whose holder polls faster than it is told to.
func (l *Line) askOnce(ctx context.Context, p Place) (Turn, error) {
	if a, ok := l.asked.Get(p.ID); ok && time.Since(a.at) < askedFor {
		return a.turn, a.err
	}
	turn, err := l.Ask(ctx, p)
	if turn.Grant != nil || errors.Is(err, ErrUsed) {
		l.asked.Put(p.ID, asked{turn, err, time.Now()})
	}
	return turn, err
}

// Report turns what Redis said into what the visitor is told, and marks it as present while it waits.
func (l *Line) Report(t Turn) Report {
	if t.Grant != nil {
		return Report{State: Admitted, Place: t.Place, Ahead: -1, Grant: t.Grant}
	}
	return l.report(l.snapshot.Load(), t.Place, l.shown.clamp(t.Place, t.Ahead, true))
}

func (l *Line) report(s *Snapshot, p Place, ahead int) Report {
	now, pace := l.clock.Now(), l.cfg.Pace()
	r := Report{State: Waiting, Place: p, Ahead: ahead, PollAfter: pace.Min}
	if s != nil {
		r.Waiting = max(s.Waiting, ahead+1)
		r.State, r.Reason = s.stateAt(now), s.Reason
		r.PollAfter = pace.After(s, ahead, now, rand.Float64())
		if r.State == BeforeOpening {
			r.Ahead, r.OpensAt = -1, time.UnixMilli(s.OpensAt)
		} else if wait, ok := s.Wait(ahead); ok {
			r.Wait = wait
		}
	}
	l.presence.mark(p, now, patience(r.PollAfter))
	return r
}

func (s *Snapshot) stateAt(now time.Time) State {
	switch {
	case s.Mode == Closed:
		return ClosedState
	case s.Mode == Full:
		return FullState
	case !s.OpenAt(now):
		return BeforeOpening
	case s.Mode == Paused || s.Rate <= 0:
		return PausedState
	}
	return Waiting
}

// hold is the answer while Redis is away: the last known position, and patience.
func (l *Line) hold(s *Snapshot, p Place) Report {
	pace := l.cfg.Pace()
	r := Report{State: Holding, Place: p, Ahead: -1, PollAfter: pace.Max}
	if s != nil {
		now := l.clock.Now()
		r.PollAfter = max(pace.After(s, s.Ahead(p.Score()), now, rand.Float64()), pace.Min)
		if s.OpenAt(now) {
			r.Ahead = l.shown.clamp(p, s.Ahead(p.Score()), false)
		}
		r.Waiting = s.Waiting
	}
	l.presence.mark(p, l.clock.Now(), patience(r.PollAfter))
	return r
}
