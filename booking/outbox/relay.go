package outbox

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// RelayConfig tunes a Relay. Each field's zero value selects its default.
type RelayConfig struct {
	Sink     Sink                  // the caller closes it after Run; default: no broker, events are told and deleted
	Interval time.Duration         // time between looks into an idle outbox, at most 200ms; default 100ms
	Logger   *slog.Logger          // default: discards
	Metrics  prometheus.Registerer // default: unregistered
}

// Relay tells the nodes of the events in bk.outbox and hands them to the broker. Any number may run, on one table.
//
// It takes up to five connections of its pool at a time: one for each shard and one for the backlog, mostly for
// milliseconds, for 2 s if the broker is slow.
type Relay struct {
	pool     *pgxpool.Pool
	cfg      RelayConfig
	metrics  *metrics
	postgres outage
	broker   outage
	near     atomic.Bool   // the broker answers fast and there was no backlog: turns publish by themselves
	wake     chan struct{} // rows were told that are still to be published
	backlog  atomic.Pointer[Backlog]
}

// NewRelay returns a relay over the pool, which may lead through a pooler in transaction mode.
func NewRelay(pool *pgxpool.Pool, cfg RelayConfig) *Relay {
	if cfg.Interval <= 0 {
		cfg.Interval = 100 * time.Millisecond
	}
	cfg.Interval = min(cfg.Interval, 200*time.Millisecond)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Relay{pool: pool, cfg: cfg, metrics: newMetrics(cfg.Metrics), wake: make(chan struct{}, 1)}
	r.postgres.log, r.postgres.what = cfg.Logger, "outbox: postgres"
	r.broker.log, r.broker.what = cfg.Logger, "outbox: broker"
	r.backlog.Store(new(Backlog))
	return r
}

// Run relays until ctx ends, and then returns nil once the transactions under way are done.
func (r *Relay) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for shard := range shards {
		running.Go(func() { r.tell(ctx, shard) })
	}
	if r.cfg.Sink != nil {
		running.Go(func() { r.drain(ctx) })
	}
	running.Go(func() { r.measure(ctx) })
	running.Wait()
	return nil
}

// tell takes turns on a shard, without a pause while there is more.
func (r *Relay) tell(ctx context.Context, shard int) {
	t := teller{relay: r, shard: shard}
	for ctx.Err() == nil {
		more, err := t.turn(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			r.postgres.failed(shard, err)
			sleep(ctx, 10*r.cfg.Interval)
		case err == nil:
			r.postgres.over(shard)
		}
		if !more {
			sleep(ctx, r.cfg.Interval)
		}
	}
}

// rouse lets the drain look now.
func (r *Relay) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// sleep waits for d, give or take a tenth, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(time.Duration(float64(d) * (0.9 + 0.2*rand.Float64())))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// outage logs the first failure of a store and the end of the last one. Several parties use the store, each by a number.
type outage struct {
	log  *slog.Logger
	what string
	mu   sync.Mutex
	from time.Time
	hit  uint64 // parties that failed last
}

func (o *outage) failed(party int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hit == 0 {
		o.from = time.Now()
		o.log.Warn(o.what+" away", "err", err)
	}
	o.hit |= 1 << party
}

func (o *outage) over(party int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hit == 0 {
		return
	}
	if o.hit &^= 1 << party; o.hit == 0 {
		o.log.Info(o.what+" back", "after", time.Since(o.from).Round(time.Millisecond))
	}
}
