package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// call does work for an event within the timeout, unless Redis was silent a moment ago. Its errors are ErrAway, what Redis
// answered, or ctx's.
func (g *Gate) call(ctx context.Context, event int64, op string, work func(context.Context) error) error {
	b := g.breaker(event)
	began, ok := b.enter(g.cfg.Now())
	if !ok {
		g.metrics.errors.WithLabelValues(op).Inc()
		return errorOf(op, event, ErrAway)
	}
	limited, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	end, _ := limited.Deadline()
	start := time.Now()
	err := work(limited)
	g.metrics.calls.WithLabelValues(op).Observe(time.Since(start).Seconds())
	a := outcome(ctx, end, err)
	if b.leave(began, g.cfg.Now(), a) {
		g.turned(event, a, err)
	}
	switch {
	case err == nil:
		return nil
	case a == unknown && ctx.Err() != nil:
		return errorOf(op, event, context.Cause(ctx))
	}
	g.metrics.errors.WithLabelValues(op).Inc()
	if a != answered {
		err = fmt.Errorf("%w: %w", ErrAway, err)
	}
	return errorOf(op, event, err)
}

// outcome tells a Redis that is silent from a caller who had less time, until end, than Redis was given, or left.
func outcome(ctx context.Context, end time.Time, err error) answer {
	var refusal redis.Error
	if err == nil || errors.As(err, &refusal) {
		return answered
	}
	if own, ok := ctx.Deadline(); ctx.Err() != nil || ok && !own.After(end) {
		return unknown
	}
	return silent
}

// turned notes that Redis went away for an event, or came back.
func (g *Gate) turned(event int64, a answer, err error) {
	if a == silent {
		g.metrics.open.Inc()
		if g.open.Add(1) == 1 {
			g.cfg.Logger.Warn("redis does not answer, the gate is open", "event", event, "err", err)
		}
		return
	}
	g.metrics.open.Dec()
	if g.open.Add(-1) == 0 {
		g.cfg.Logger.Info("redis answers again, the gate is closed")
	}
}

func (g *Gate) breaker(event int64) *breaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	b, ok := g.breakers.Get(event)
	if !ok {
		b = new(breaker)
		g.breakers.Put(event, b)
	}
	return b
}

func errorOf(op string, event int64, err error) error {
	return fmt.Errorf("gate: %s in event %d: %w", op, event, err)
}
