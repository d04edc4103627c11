package gate

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"ropeline/internal/recent"
)

// ErrAway means that Redis did not answer in time, or not a moment ago. What was asked may have happened all the same.
var ErrAway = errors.New("gate: Redis is away")

// Config tunes a Gate. Each field's zero value selects its default.
type Config struct {
	Prefix  string                // in front of every key, without braces; default: none
	Timeout time.Duration         // longest wait for Redis in one call; default 50ms
	Logger  *slog.Logger          // default: discards
	Metrics prometheus.Registerer // default: unregistered
	Now     func() time.Time      // for the waits between tries, and the limit while Redis is away; default: time.Now
}

// Gate marks seats in Redis. Make one with [New]. Safe for concurrent use.
type Gate struct {
	rdb     redis.UniversalClient
	scripts once
	limiter *redis_rate.Limiter
	local   nodeLimits
	cfg     Config
	metrics *metrics
	owed    ledger
	open    atomic.Int64 // events that Redis is away for

	mu       sync.Mutex
	breakers *recent.Cache[int64, *breaker]
}

// maxEvents bounds the events whose state a node remembers.
const maxEvents = 1 << 12

// New returns a gate on rdb, whose options must have ContextTimeoutEnabled: without it Config.Timeout doesn't bound a call.
// The caller closes rdb.
func New(rdb redis.UniversalClient, cfg Config) *Gate {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 50 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Gate{
		rdb: rdb, scripts: once{rdb}, limiter: redis_rate.NewLimiter(limitScripts{once{rdb}}),
		local: nodeLimits{seen: recent.New[limitOf, *rate.Limiter](maxCustomers)},
		cfg:   cfg, metrics: newMetrics(cfg.Metrics), breakers: recent.New[int64, *breaker](maxEvents),
	}
}

// Take marks seats of an event as hold's for ttl, all or none; taken are those that another hold has. Seats that are hold's
// already count as free. Give it no more than the time that the hold has left in the database, so that no mark outlives
// its hold.
//
// After an error the caller goes on to Postgres. The marks may have been set even so: whoever doesn't get the hold in the
// end calls Drop, after an error as well.
func (g *Gate) Take(ctx context.Context, event int64, seats []string, hold string, ttl time.Duration) (taken []string, err error) {
	return g.Swap(ctx, event, seats, hold, "", ttl)
}

// Swap is Take for a hold that replaces another one, old: seats that are old's count as free and become hold's. If the
// swap is granted, drop all seats of old; if not, drop those of hold and take those of old again.
func (g *Gate) Swap(ctx context.Context, event int64, seats []string, hold, old string, ttl time.Duration) (taken []string, err error) {
	if len(seats) == 0 {
		return nil, nil
	}
	taken, err = g.take(ctx, event, seats, hold, old, ttl)
	if err == nil && g.settle(ctx) && len(taken) > 0 { // by marks of ours, it may be, that should be gone
		taken, err = g.take(ctx, event, seats, hold, old, ttl)
	}
	if len(taken) > 0 {
		g.metrics.refused.Inc()
	}
	return taken, err
}

func (g *Gate) take(ctx context.Context, event int64, seats []string, hold, old string, ttl time.Duration) (taken []string, err error) {
	err = g.call(ctx, event, "take", func(ctx context.Context) error {
		at, err := takeScript.Run(ctx, g.scripts, g.seatKeys(event, seats), hold, millis(ttl), old).Int64Slice()
		for _, i := range at {
			taken = append(taken, seats[i-1])
		}
		return err
	})
	return taken, err
}

// Keep lets hold's marks on seats last for ttl from now. Other marks stay as they are.
func (g *Gate) Keep(ctx context.Context, event int64, seats []string, hold string, ttl time.Duration) error {
	return g.run(ctx, event, "keep", keepScript, seats, hold, millis(ttl))
}

// Sold marks seats that are hold's or nobody's for ttl from now, as long as they shall be refused: until the event is over.
// The marks stay hold's, so that Drop frees them after a refund.
func (g *Gate) Sold(ctx context.Context, event int64, seats []string, hold string, ttl time.Duration) error {
	return g.run(ctx, event, "sold", soldScript, seats, hold, millis(ttl))
}

// Drop removes hold's marks on seats, and nobody else's. It goes on when ctx is cancelled, for Config.Timeout. An error is
// nothing to act on: the gate removes the marks when Redis answers again.
func (g *Gate) Drop(ctx context.Context, event int64, seats []string, hold string) error {
	err := g.run(context.WithoutCancel(ctx), event, "drop", dropScript, seats, hold)
	if err != nil {
		g.owed.add(debt{keys: g.seatKeys(event, seats), hold: hold})
		g.metrics.owed.Set(float64(g.owed.size()))
	}
	return err
}

func (g *Gate) run(ctx context.Context, event int64, op string, script *redis.Script, seats []string, args ...any) error {
	if len(seats) == 0 {
		return nil
	}
	err := g.call(ctx, event, op, func(ctx context.Context) error {
		return script.Run(ctx, g.scripts, g.seatKeys(event, seats), args...).Err()
	})
	if err == nil {
		g.settle(ctx)
	}
	return err
}

func (g *Gate) seatKeys(event int64, seats []string) []string {
	prefix := g.cfg.Prefix + "seat:{" + strconv.FormatInt(event, 10) + "}:"
	keys := make([]string, len(seats))
	for i, seat := range seats {
		keys[i] = prefix + seat
	}
	return keys
}

// millis is ttl as PX wants it: rounded down, for a mark must not outlive its hold, and at least 1.
func millis(ttl time.Duration) int64 { return max(1, ttl.Milliseconds()) }
