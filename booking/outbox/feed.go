package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	freshFor   = 700 * time.Millisecond // since the last heartbeat; relays send one each 200 ms
	keysKnown  = 16384                  // keys whose shard a feed remembers
	inventory  = "inventory-changed"    // the topic whose keys are asked about
	retryFirst = 250 * time.Millisecond
	retryLast  = 5 * time.Second
)

// FeedConfig says where a Feed takes its events. On and Reset are called from one goroutine, one at a time; while they are
// slow the feed is not fresh.
type FeedConfig struct {
	On      func(Event)           // each event, in order per key; some come twice
	Reset   func(key string)      // events of the key may have been missed: read anew from the tables; "" = of every key
	Logger  *slog.Logger          // default: discards
	Metrics prometheus.Registerer // default: unregistered
}

// Feed hears what the relays of all nodes tell. Fresh may be called by any goroutine.
type Feed struct {
	connect func(ctx context.Context) (*pgx.Conn, error)
	cfg     FeedConfig
	outage  outage
	deaf    bool // logged that nothing is heard; the goroutine of Run

	start time.Time
	beats [shards]atomic.Int64 // last heartbeat, ns since start; 0: none since the connection was made
	mu    sync.RWMutex
	keys  map[string]int // shard of a key, as heard
}

// NewFeed returns a feed. connect opens a connection that the feed alone uses and closes. It must lead to Postgres directly:
// a pooler in transaction mode drops LISTEN, and the feed is then never fresh.
func NewFeed(connect func(ctx context.Context) (*pgx.Conn, error), cfg FeedConfig) *Feed {
	if cfg.On == nil {
		cfg.On = func(Event) {}
	}
	if cfg.Reset == nil {
		cfg.Reset = func(string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Feed{connect: connect, cfg: cfg, start: time.Now(), keys: map[string]int{}}
	f.outage.log, f.outage.what = cfg.Logger, "feed: postgres"
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ropeline_booking_feed_fresh", Help: "1 while this node hears of every change within 700 ms, else 0.",
		}, f.gauge))
	}
	return f
}

// Run listens until ctx ends, and then returns nil. It connects again whenever the connection fails.
func (f *Feed) Run(ctx context.Context) error {
	pause := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := f.listen(ctx)
		f.forget()
		if ctx.Err() != nil {
			break
		}
		f.outage.failed(0, err)
		if time.Since(began) > retryLast {
			pause = retryFirst
		}
		sleep(ctx, pause)
		pause = min(2*pause, retryLast)
	}
	return nil
}

// Fresh says whether everything about the key that was committed 700 ms ago or earlier has been passed to On or Reset, give
// or take what the network and the look of a relay take. A feed that hears nothing is never fresh.
func (f *Feed) Fresh(key string) bool {
	f.mu.RLock()
	shard, known := f.keys[key]
	f.mu.RUnlock()
	if known {
		return f.fresh(shard)
	}
	return f.all()
}

func (f *Feed) fresh(shard int) bool {
	beat := f.beats[shard].Load()
	return beat != 0 && time.Since(f.start)-time.Duration(beat) < freshFor
}

func (f *Feed) all() bool {
	for shard := range shards {
		if !f.fresh(shard) {
			return false
		}
	}
	return true
}

func (f *Feed) gauge() float64 {
	if f.all() {
		return 1
	}
	return 0
}

// forget makes no key fresh.
func (f *Feed) forget() {
	for shard := range f.beats {
		f.beats[shard].Store(0)
	}
}

// listen passes on what one connection hears. It begins with a reset: what was told while nobody listened is not told again.
func (f *Feed) listen(ctx context.Context) error {
	ear, err := open(ctx, f.connect)
	if err != nil {
		return err
	}
	defer ear.close()
	f.outage.over(0)
	f.cfg.Reset("")
	quiet := time.NewTimer(retryLast)
	defer quiet.Stop()
	for {
		select {
		case h := <-ear.heard:
			quiet.Stop()
			f.deaf = false
			if err := f.take(h); err != nil {
				return err
			}
		case <-ear.ended:
			return ear.err
		case <-quiet.C:
			if !f.deaf {
				f.deaf = true
				f.cfg.Logger.Warn("feed: nothing heard; no relay runs, or LISTEN goes through a pooler that drops it", "seconds", retryLast.Seconds())
			}
		}
	}
}

// take passes one message on.
func (f *Feed) take(h heard) error {
	if h.missed {
		f.cfg.Reset("")
		return nil
	}
	var m message
	if err := json.Unmarshal([]byte(h.text), &m); err != nil {
		return fmt.Errorf("message on %s: %w", channel, err)
	}
	if m.Shard < 0 || m.Shard >= shards {
		return fmt.Errorf("message on %s: shard %d", channel, m.Shard)
	}
	switch {
	case m.Reset != nil:
		f.learn(*m.Reset, m.Shard)
		f.cfg.Reset(*m.Reset)
	case len(m.Events) > 0:
		for _, e := range m.Events {
			if e.Topic == inventory {
				f.learn(e.Key, m.Shard)
			}
			f.cfg.On(e)
		}
	default:
		f.beats[m.Shard].Store(int64(h.at.Sub(f.start)))
	}
	return nil
}

// learn remembers the shard of a key.
func (f *Feed) learn(key string, shard int) {
	f.mu.RLock()
	_, known := f.keys[key]
	f.mu.RUnlock()
	if known || key == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.keys) >= keysKnown {
		clear(f.keys)
	}
	f.keys[key] = shard
}
