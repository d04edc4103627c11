package admitter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"ropeline/admitter/token"
	"ropeline/queue"
)

// Line is what an Admitter needs of a room's line. *queue.Line satisfies it; its comments are the contract.
type Line interface {
	Room() string
	Lead(ctx context.Context, holder string, ttl time.Duration, seen int64) (term int64, err error)
	Resign(ctx context.Context, holder string) error
	Look(ctx context.Context, term int64, s queue.Settings) (queue.View, error)
	Candidates(ctx context.Context, from, n int, now time.Time) ([]queue.Candidate, error)
	Admit(ctx context.Context, term int64, batch string, claim time.Duration, grants []queue.Grant, absent []queue.Place) ([]string, error)
	Marks(ctx context.Context, waiting int) ([]queue.Mark, error)
	Publish(ctx context.Context, term int64, s queue.Snapshot) error
}

// Signer makes access tokens. *token.Authority satisfies it.
type Signer interface {
	Sign(c token.Claims) (string, error)
}

// Settings are what the organizer wants of a room, read anew at every tick.
type Settings struct {
	queue.Settings
	SignAtClaim bool // the token names the customer, whom only the node that hands it out knows
}

// Config tunes an Admitter. Each field's zero value selects its default.
type Config struct {
	Interval time.Duration    // between two ticks; default 500 ms
	Lease    time.Duration    // how long a silent leader stays leader; default 3 s
	Chunk    int              // most places in one commit; default 500, about 2 ms of Redis
	Now      func() time.Time // with a monotonic reading; default time.Now
	Logger   *slog.Logger     // default: discards
	Metrics  *Metrics         // default: not kept
}

// Admitter admits the visitors of one room while its node leads that room.
type Admitter struct {
	line     Line
	signer   Signer
	settings func() Settings
	cfg      Config

	holder string
	term   term
	unsure bool // the last call for the lease failed: Redis may have given it all the same
	speed  speed
}

// New returns the admitter of line's room. It does nothing before Run.
func New(line Line, signer Signer, settings func() Settings, cfg Config) *Admitter {
	if cfg.Interval <= 0 {
		cfg.Interval = 500 * time.Millisecond
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 3 * time.Second
	}
	if cfg.Chunk <= 0 {
		cfg.Chunk = 500
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	return &Admitter{line: line, signer: signer, settings: settings, cfg: cfg, holder: rand.Text()}
}

// Run leads whenever the lease is free, until ctx ends; then it gives the lease up and returns nil.
func (a *Admitter) Run(ctx context.Context) error {
	defer a.resign(ctx)
	wait := time.NewTimer(0)
	defer wait.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		began := a.cfg.Now()
		err := a.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			a.cfg.Logger.Error("admission fails", "room", a.line.Room(), "err", err)
		} else if err == nil && failing {
			a.cfg.Logger.Info("admission works again", "room", a.line.Room())
		}
		failing = err != nil
		wait.Reset(a.next(began))
	}
}

// next is the time to the next turn: a leader keeps its rhythm, the others ask for the lease at odd moments.
func (a *Admitter) next(began time.Time) time.Duration {
	if !a.term.live(a.cfg.Now()) {
		return a.cfg.Lease/6 + mathrand.N(a.cfg.Lease/6)
	}
	return max(0, a.cfg.Interval-a.cfg.Now().Sub(began))
}

// turn takes or renews the lease and, while it holds, works through one tick.
func (a *Admitter) turn(ctx context.Context) error {
	if err := a.lead(ctx); err != nil || a.term.fence == 0 {
		return err
	}
	err := a.tick(ctx)
	if errors.Is(err, queue.ErrStaleTerm) {
		a.cfg.Logger.Warn("another node leads", "room", a.line.Room(), "term", a.term.fence)
		a.lose()
		return nil
	}
	return err
}

func (a *Admitter) tick(ctx context.Context) error {
	began := a.cfg.Now()
	s := a.settings()
	view, err := a.line.Look(ctx, a.term.fence, s.Settings)
	if err != nil {
		return err
	}
	moved, err := a.admit(ctx, s, view)
	if err != nil {
		return err
	}
	moving := view.Waiting > 0 && s.Mode == queue.Open && !view.Now.Before(s.OpensAt)
	a.speed.see(s.Rate, moved.admitted+moved.absent, moving, began)
	a.cfg.Metrics.moved(a.line.Room(), moved)
	if err := a.publish(ctx, s, view, moved); err != nil {
		return err
	}
	a.cfg.Metrics.tick(a.cfg.Now().Sub(began))
	return nil
}

func (a *Admitter) publish(ctx context.Context, s Settings, v queue.View, m moved) error {
	waiting := max(0, v.Waiting-m.admitted-m.absent)
	marks, err := a.line.Marks(ctx, waiting)
	if err != nil {
		return err
	}
	snap := queue.Snapshot{
		At: v.Now.UnixMilli(), Mode: s.Mode, Reason: s.Reason, Rate: s.Rate, Limit: s.Limit,
		Active: v.Active + m.admitted, Waiting: waiting, Serving: max(v.Serving, m.serving), Highest: v.Highest,
		Speed: a.speed.perSecond, Marks: marks,
	}
	if !s.OpensAt.IsZero() {
		snap.OpensAt = s.OpensAt.UnixMilli()
	}
	if err := a.line.Publish(ctx, a.term.fence, snap); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}
