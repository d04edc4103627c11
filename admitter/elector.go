package admitter

import (
	"context"
	"time"
)

// term is one tenure as leader. until counts from before the lease was asked for, less a margin, on the monotonic
// clock: a slow answer or a paused process stops acting before its lease can pass to another.
type term struct {
	fence int64 // grows with every tenure; scripts refuse a smaller one
	until time.Time
}

func (t term) live(now time.Time) bool { return t.fence != 0 && now.Before(t.until) }

// lead takes or renews the lease. a.term.fence is 0 afterwards while another node leads.
func (a *Admitter) lead(ctx context.Context) error {
	asked := a.cfg.Now()
	fence, err := a.line.Lead(ctx, a.holder, a.cfg.Lease, a.term.fence)
	a.unsure = err != nil
	if err != nil {
		if !a.term.live(a.cfg.Now()) {
			a.lose()
		}
		return err
	}
	if fence == 0 {
		a.lose()
		return nil
	}
	if fence != a.term.fence {
		a.cfg.Logger.Info("leads", "room", a.line.Room(), "term", fence)
		a.cfg.Metrics.leads(a.line.Room(), true)
		a.speed = speed{}
	}
	a.term = term{fence: fence, until: asked.Add(a.cfg.Lease * 9 / 10)}
	return nil
}

// lose forgets the tenure, so that the next lease begins a new one.
func (a *Admitter) lose() {
	if a.term.fence != 0 {
		a.cfg.Metrics.leads(a.line.Room(), false)
	}
	a.term = term{}
}

// resign gives the lease up so that another node leads at once, also one that was taken without our hearing of it.
func (a *Admitter) resign(ctx context.Context) {
	defer a.cfg.Metrics.forget(a.line.Room())
	if a.term.fence == 0 && !a.unsure {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := a.line.Resign(ctx, a.holder); err != nil {
		a.cfg.Logger.Warn("lease not given up", "room", a.line.Room(), "err", err)
	}
	a.lose()
}
