package queue

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// goneSet holds the sessions that ended early, as Redis lists them and as this node has just seen them end, and the
// places that were given up here. A session in it is refused at once by the node that saw it end and by the others
// within the age of their snapshot.
type goneSet struct {
	mu      sync.RWMutex
	version int64
	shared  map[string]struct{}
	own     map[string]time.Time // until when it matters
	swept   time.Time
	changed chan struct{} // closed and replaced whenever something was added
}

func newGoneSet() *goneSet {
	return &goneSet{shared: map[string]struct{}{}, own: map[string]time.Time{}, changed: make(chan struct{})}
}

func (g *goneSet) has(id string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, shared := g.shared[id]
	_, own := g.own[id]
	return shared || own
}

func (g *goneSet) add(id string, until, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep(now)
	g.own[id] = until
	g.announce()
}

func (g *goneSet) drop(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.own, id)
}

func (g *goneSet) replace(version int64, ids []string, now time.Time) {
	shared := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		shared[id] = struct{}{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version, g.shared = version, shared
	g.sweep(now)
	g.announce()
}

// sweep forgets what matters no more, at most every ten seconds.
func (g *goneSet) sweep(now time.Time) {
	if now.Sub(g.swept) < 10*time.Second {
		return
	}
	g.swept = now
	for id, until := range g.own {
		if until.Before(now) {
			delete(g.own, id)
		}
	}
}

func (g *goneSet) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Ended tells whether the session (or place) id ended before its access token did.
func (l *Line) Ended(id string) bool { return l.gone.has(id) }

// EndedChanged returns a channel that is closed when sessions have ended early since the call.
func (l *Line) EndedChanged() <-chan struct{} {
	l.gone.mu.RLock()
	defer l.gone.mu.RUnlock()
	return l.gone.changed
}

// readEnded fetches the sessions that ended early when their count has changed.
func (l *Line) readEnded(ctx context.Context, version int64) error {
	l.gone.mu.RLock()
	same := l.gone.version == version
	l.gone.mu.RUnlock()
	if same {
		return nil
	}
	now := l.clock.Now()
	var ids []string
	err := l.reading(ctx, "ended", func(ctx context.Context) (err error) {
		ids, err = l.rdb.ZRangeByScore(ctx, l.k.ended, &redis.ZRangeBy{
			Min: strconv.FormatInt(now.UnixMilli()-leewayMillis, 10), Max: "+inf",
		}).Result()
		return err
	})
	if err != nil {
		return err
	}
	l.gone.replace(version, ids, now)
	return nil
}
