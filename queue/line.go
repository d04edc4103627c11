package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/recent"
)

// Config tunes a Line. Each field's zero value selects its default.
type Config struct {
	Clock      *Clock        // the room's: Redis's time on its shard; default: one of its own
	NodeClock  *Clock        // also told Redis's time: the node's, for what belongs to no room; default: none
	Pace       func() Pace   // bounds of the polls; default: 2 s to 15 s, 5,000 polls per second
	Refresh    time.Duration // between two readings of the snapshot; default 250 ms
	Flush      time.Duration // between two flushes of presence; default 1 s
	Timeout    time.Duration // for one call to Redis; default 2 s
	Stale      time.Duration // Redis counts as away when it has not answered for that long; default 3 s
	MaxWaiting int           // most visitors the line takes; default 0: no bound
	Batch      int           // most visits in one batch; default 512
	Pending    int           // most visits waiting for a batch; default 65536
	Logger     *slog.Logger  // default: discards
	Metrics    *Metrics      // default: not kept
}

// Line is one room's waiting line as one node sees it. Safe for concurrent use; Run must be running.
type Line struct {
	rdb   redis.UniversalClient
	room  string
	k     keys
	cfg   Config
	clock *Clock

	era       atomic.Pointer[era]
	served    atomic.Int64 // highest score that this node has seen admitted
	snapshot  atomic.Pointer[Snapshot]
	read      atomic.Int64 // when Redis last answered the refresh, ns of the node's clock since start
	failing   atomic.Bool  // the last refresh failed
	recovered atomic.Int64 // when Redis answered again after it had been away, ns as in read
	started   time.Time

	visits   batcher
	presence presence
	shown    shown
	gone     *goneSet
	owed     owed
	asked    *recent.Cache[string, asked]
}

// era is a generation as this node knows it.
type era struct {
	generation int64
	highest    atomic.Int64 // last number seen in it
}

// New returns the line of room, whose id is [a-z0-9-].
func New(rdb redis.UniversalClient, room string, cfg Config) *Line {
	setDefault(&cfg.Clock, &Clock{})
	setDefault(&cfg.Refresh, 250*time.Millisecond)
	setDefault(&cfg.Flush, time.Second)
	setDefault(&cfg.Timeout, 2*time.Second)
	setDefault(&cfg.Stale, 3*time.Second)
	setDefault(&cfg.Batch, 512)
	setDefault(&cfg.Pending, 65536)
	setDefault(&cfg.Logger, slog.New(slog.DiscardHandler))
	setDefault(&cfg.Metrics, NewMetrics(nil))
	if cfg.Pace == nil {
		cfg.Pace = func() Pace { return Pace{Min: 2 * time.Second, Max: 15 * time.Second, Budget: 5000} }
	}
	l := &Line{rdb: rdb, room: room, k: keysOf(room), cfg: cfg, clock: cfg.Clock, started: time.Now(),
		gone: newGoneSet(), asked: recent.New[string, asked](4096)}
	l.owed.longer, l.owed.ended = map[string]Session{}, map[string]Session{}
	l.visits.line = l
	l.era.Store(&era{})
	l.recovered.Store(-1 << 62)
	return l
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Room is the id of the line's room.
func (l *Line) Room() string { return l.room }

// Now is Redis's time.
func (l *Line) Now() time.Time { return l.clock.Now() }

// Snapshot is the room as the leader last described it; nil before the first reading or before there was a leader.
func (l *Line) Snapshot() *Snapshot { return l.snapshot.Load() }

// Away tells whether Redis has stopped answering this node. A process that was paused does not know until it has tried.
func (l *Line) Away() bool { return l.failing.Load() && l.unread() > l.cfg.Stale }

// unread is how long this node has not heard from Redis.
func (l *Line) unread() time.Duration {
	return time.Since(l.started) - time.Duration(l.read.Load())
}

// paused tells whether the snapshot is old although nothing failed: the process was stopped for a while, and what it
// remembers is of before.
func (l *Line) paused() bool { return !l.failing.Load() && l.unread() > 4*l.cfg.Refresh }

// Age is how old the snapshot is; the node's uptime if there is none.
func (l *Line) Age() time.Duration {
	s := l.snapshot.Load()
	if s == nil {
		return time.Since(l.started)
	}
	return max(0, l.clock.Now().Sub(time.UnixMilli(s.At)))
}

// Open makes sure that the room has a generation and reads the first snapshot. Joins can be answered once it returns nil.
func (l *Line) Open(ctx context.Context) error {
	generation, err := l.call(ctx, "open", openScript, l.k.with(), l.era.Load().generation, generationEpoch).Int64()
	if err != nil {
		return err
	}
	l.adopt(generation)
	return l.refresh(ctx)
}

// adopt moves this node to a newer generation.
func (l *Line) adopt(generation int64) {
	for {
		known := l.era.Load()
		if generation <= known.generation {
			return
		}
		if l.era.CompareAndSwap(known, &era{generation: generation}) {
			l.shown.reset(generation)
			l.presence.again()
			if known.generation != 0 {
				l.cfg.Logger.Warn("new generation", "room", l.room, "generation", generation, "before", known.generation)
			}
			return
		}
	}
}

// Run reads the snapshot and flushes presence until ctx ends; then it flushes once more and returns nil.
func (l *Line) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.every(ctx, l.cfg.Refresh, "refresh", l.refreshOrOpen) })
	wg.Go(func() { l.every(ctx, l.cfg.Flush, "flush", l.flush) })
	wg.Go(func() { l.every(ctx, l.cfg.Flush, "settle", l.settle) })
	wg.Wait()
	l.visits.close()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Timeout)
	defer cancel()
	if err := errors.Join(l.flush(last), l.settle(last)); err != nil {
		l.cfg.Logger.Warn("not written to Redis before the end", "room", l.room, "err", err)
	}
	l.cfg.Metrics.forget(l.room)
	return nil
}

// every runs work on a ticker, and logs when it begins to fail and when it works again.
func (l *Line) every(ctx context.Context, interval time.Duration, name string, work func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				l.cfg.Logger.Error(name+" fails", "room", l.room, "err", err)
			} else {
				l.cfg.Logger.Info(name+" works again", "room", l.room)
			}
		}
	}
}

// refreshOrOpen also makes a generation where Redis has none, or an older one than this node knows.
func (l *Line) refreshOrOpen(ctx context.Context) error {
	away := l.Away()
	err := l.refresh(ctx)
	if errors.Is(err, ErrGeneration) {
		err = l.Open(ctx)
	}
	if away && err == nil {
		l.presence.again()
		l.recovered.Store(int64(time.Since(l.started)))
	}
	l.failing.Store(err != nil)
	l.cfg.Metrics.aged(l)
	return err
}

// calmFor is how long after an outage nobody is admitted.
const calmFor = 3 * time.Second

// calm tells whether an outage has just ended: until the nodes have written back the sessions that they lengthened
// meanwhile, more are active than Redis knows.
func (l *Line) calm() bool {
	return l.Away() || time.Since(l.started)-time.Duration(l.recovered.Load()) < calmFor
}

func (l *Line) refresh(ctx context.Context) error {
	sent := time.Now()
	known := l.era.Load()
	answer, err := l.call(ctx, "read", readScript, l.k.with(), known.generation, known.highest.Load()).Slice()
	if err != nil {
		return err
	}
	if len(answer) != 6 {
		return fmt.Errorf("read in room %s: %d values, 6 are needed", l.room, len(answer))
	}
	now, generation, highest, ended := answer[0].(int64), answer[1].(int64), answer[2].(int64), answer[3].(int64)
	l.clock.set(now, sent)
	if l.cfg.NodeClock != nil {
		l.cfg.NodeClock.set(now, sent)
	}
	if generation < l.era.Load().generation || generation == 0 {
		return fmt.Errorf("read in room %s: %w", l.room, ErrGeneration)
	}
	l.adopt(generation)
	l.sawNumber(generation, highest)
	if blob := answer[4].(string); blob != "" {
		var s Snapshot
		if err := json.Unmarshal([]byte(blob), &s); err != nil {
			return fmt.Errorf("snapshot of room %s: %w", l.room, err)
		}
		s.Serving = max(s.Serving, answer[5].(int64))
		l.snapshot.Store(&s)
	}
	if err := l.readEnded(ctx, ended); err != nil {
		return err
	}
	l.read.Store(int64(time.Since(l.started)))
	l.cfg.Metrics.see(l)
	return nil
}

func (l *Line) sawNumber(generation, number int64) {
	for e := l.era.Load(); e.generation == generation; {
		seen := e.highest.Load()
		if number <= seen || e.highest.CompareAndSwap(seen, number) {
			return
		}
	}
}
