package gate

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxOwed  = 8192 // debts remembered; of more, the oldest marks are left to expire
	perRound = 64   // debts settled in one round trip
	maxTries = 60   // of one debt, at most one a second; after them its marks are left to expire
)

// debt is a removal of marks that Redis has not confirmed.
type debt struct {
	keys  []string
	hold  string
	tries int
}

// settle removes marks that could not be removed before, and says whether it removed any. It is called when Redis has just
// answered: what was sent to it before an outage has run by then, and sets no mark again.
func (g *Gate) settle(ctx context.Context) (removed bool) {
	debts := g.owed.due(g.cfg.Now())
	if len(debts) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.Timeout)
	defer cancel()
	round := g.rdb.Pipeline() // the client may repeat it: a hold that was dropped doesn't come back
	answers := make([]*redis.Cmd, len(debts))
	for i, d := range debts {
		answers[i] = dropScript.Eval(ctx, round, d.keys, d.hold)
	}
	_, _ = round.Exec(ctx) // each command has its own error
	var left []debt
	for i, d := range debts {
		n, err := answers[i].Int()
		removed = removed || n > 0
		if err != nil {
			left = append(left, d)
		}
	}
	if len(left) > 0 {
		g.owed.failed(g.cfg.Now(), left)
	}
	g.metrics.owed.Set(float64(g.owed.size()))
	return removed
}

// ledger is the debts of a node, oldest first.
type ledger struct {
	mu    sync.Mutex
	debts []debt
	next  time.Time // not before then; zero: at once
}

// add remembers debts.
func (l *ledger) add(more ...debt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debts = append(l.debts, more...)
	if over := len(l.debts) - maxOwed; over > 0 {
		l.debts = append([]debt(nil), l.debts[over:]...)
	}
}

// due takes out debts that may be settled now.
func (l *ledger) due(now time.Time) []debt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.debts) == 0 || now.Before(l.next) {
		return nil
	}
	n := min(perRound, len(l.debts))
	out := append([]debt(nil), l.debts[:n]...)
	l.debts = l.debts[n:]
	if len(l.debts) == 0 {
		l.debts = nil
	}
	return out
}

// failed puts debts back, to be tried again after a pause.
func (l *ledger) failed(now time.Time, debts []debt) {
	l.mu.Lock()
	l.next = now.Add(pause)
	l.mu.Unlock()
	keep := debts[:0]
	for _, d := range debts {
		if d.tries++; d.tries < maxTries {
			keep = append(keep, d)
		}
	}
	l.add(keep...)
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.debts)
}
