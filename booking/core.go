package booking

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"ropeline/booking/outbox"
	"ropeline/booking/payment"
	"ropeline/internal/recent"
)

// Gate sheds holds before they reach Postgres. It may refuse or delay, never grant; an error means that it has no opinion.
// *gate.Gate satisfies it.
type Gate interface {
	// Take marks the seats as hold's, all or none; taken are those that another hold has.
	Take(ctx context.Context, event int64, seats []string, hold string, ttl time.Duration) (taken []string, err error)
	// Swap is Take for a hold that replaces another one, whose marks count as free.
	Swap(ctx context.Context, event int64, seats []string, hold, old string, ttl time.Duration) (taken []string, err error)
	// Keep lets hold's marks last for ttl from now.
	Keep(ctx context.Context, event int64, seats []string, hold string, ttl time.Duration) error
	// Drop removes the marks that are hold's.
	Drop(ctx context.Context, event int64, seats []string, hold string) error
	// Sold marks seats that are hold's, or nobody's, for a long time.
	Sold(ctx context.Context, event int64, seats []string, hold string, ttl time.Duration) error
}

// Limiter bounds how often one customer may try to hold. *gate.Gate satisfies it.
type Limiter interface {
	// Allow counts one try; ok is false if it is one too many, and retry says when the next will pass.
	Allow(ctx context.Context, event int64, customer string, perMinute int) (retry time.Duration, ok bool)
}

// Config tunes a Core. Each field's zero value selects its default.
type Config struct {
	Providers []payment.Provider // the first one is used for new payments; default: none, so nothing can be paid
	Gate      Gate               // default: none
	Limits    Limiter            // default: no limit
	Sink      outbox.Sink        // the broker; default: none, events feed this process and its like only
	Feed      bool               // listen to what other nodes do, so that the table in front of holds can be trusted

	ReconcileAfter time.Duration // when a payment that nobody called back about is asked for; default 15 min
	SweepEvery     time.Duration // default 5 s; negative: never
	AuditEvery     time.Duration // default 1 min; negative: never
	MaxBatch       int           // most holds in one transaction; default 256

	On      func(outbox.Event)    // sees each event, on every node, in order per key; must not block
	Now     func() time.Time      // the clock, for tests; default: the database's
	Logger  *slog.Logger          // default: discards
	Metrics prometheus.Registerer // default: unregistered
}

// Core is the booking core of one node. Any number of nodes may share a database. Safe for concurrent use.
type Core struct {
	holds, work *pgxpool.Pool
	cfg         Config
	log         *slog.Logger
	metrics     *metrics
	clock       *clock
	catalog     *catalog
	boards      *boards
	relay       *outbox.Relay
	feed        *outbox.Feed
	ours        *recent.Cache[ownKey, []byte] // keys of this node's own holds, and what they were used for
	drops       chan func()                   // what is left to do at the gate

	troubled atomic.Int64 // until then tries are not counted, ns since the Unix epoch

	lanesMu sync.Mutex
	lanes   map[int64]*lane
	alone   chan struct{} // a slot for each hold that is decided by itself
	found   findings
}

type ownKey struct{ customer, key string }

// New returns a core over two pools of the same database: see [OpenHolds] and [OpenWork]. Nothing runs before Run.
func New(holds, work *pgxpool.Pool, cfg Config) *Core {
	cfg.ReconcileAfter = cmp.Or(cfg.ReconcileAfter, 15*time.Minute)
	cfg.SweepEvery = cmp.Or(cfg.SweepEvery, 5*time.Second)
	cfg.AuditEvery = cmp.Or(cfg.AuditEvery, time.Minute)
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, 256)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Core{
		holds: holds, work: work, cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics),
		clock: &clock{now: cfg.Now}, lanes: map[int64]*lane{}, ours: recent.New[ownKey, []byte](65536), drops: make(chan func(), 4096),
		alone: make(chan struct{}, max(1, int(holds.Config().MaxConns)-1)),
	}
	c.catalog = newCatalog(work)
	c.boards = newBoards(c)
	c.relay = outbox.NewRelay(work, outbox.RelayConfig{Sink: cfg.Sink, Logger: cfg.Logger, Metrics: cfg.Metrics})
	if cfg.Feed {
		c.feed = outbox.NewFeed(c.connect, outbox.FeedConfig{On: c.told, Reset: c.boards.forget, Logger: cfg.Logger, Metrics: cfg.Metrics})
	}
	return c
}

// connect opens a connection of its own, for LISTEN.
func (c *Core) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, c.work.Config().ConnConfig.Copy())
}

// Run works until ctx ends: it sweeps expired holds, closes payment pages, asks about silent payments, sends refunds,
// relays events, makes partitions and audits. Any number of nodes may run it.
func (c *Core) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.relay.Run(ctx) })
	if c.feed != nil {
		group.Go(func() error { return c.feed.Run(ctx) })
	}
	group.Go(func() error { c.atTheGate(ctx); return nil })
	for _, w := range c.workers() {
		if w.every > 0 {
			group.Go(func() error { c.repeat(ctx, w); return nil })
		}
	}
	return group.Wait()
}

// now is the clock parameter of statements: NULL for the database's own.
func (c *Core) now() *time.Time {
	if c.cfg.Now == nil {
		return nil
	}
	t := c.cfg.Now()
	return &t
}

// clock knows the database's time as well as a node can: its own plus the difference last seen.
type clock struct {
	now    func() time.Time // of tests
	mu     sync.RWMutex
	offset time.Duration
	known  bool
}

// saw notes that the database's clock stood at t when it began what we asked for at before and had the answer to at after. Read
// so, it is never ahead of the database's by more than the way there takes.
func (k *clock) saw(before, after, t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known && after.Sub(before) > 100*time.Millisecond {
		return // it waited somewhere, and tells little
	}
	k.offset, k.known = t.Sub(before), true
}

// read returns the database's time; ok is false while it isn't known.
func (k *clock) read() (now time.Time, ok bool) {
	if k.now != nil {
		return k.now(), true
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return time.Now().Add(k.offset), k.known
}
