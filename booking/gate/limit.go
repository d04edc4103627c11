package gate

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"golang.org/x/time/rate"

	"ropeline/internal/recent"
)

// maxCustomers bounds what a node remembers of customers while Redis is away. Of more, those that tried least recently
// start afresh.
const maxCustomers = 1 << 16

// Allow counts one try of a customer at an event and says whether it is within perMinute: that many at once, then one each
// 60/perMinute seconds. A refused try doesn't count; retry is then the time until the next one passes, above 0. With
// perMinute of 0 or less everything passes.
//
// It always answers: without Redis it counts on this node.
func (g *Gate) Allow(ctx context.Context, event int64, customer string, perMinute int) (retry time.Duration, ok bool) {
	if perMinute <= 0 {
		return 0, true
	}
	by, name := "redis", digest(customer)
	retry, ok, err := g.allow(ctx, event, name, perMinute)
	if err != nil {
		by = "node"
		retry, ok = g.local.allow(g.cfg.Now(), limitOf{event, name, perMinute})
	}
	if !ok {
		g.metrics.limited.WithLabelValues(by).Inc()
	}
	return retry, ok
}

func (g *Gate) allow(ctx context.Context, event int64, name string, perMinute int) (retry time.Duration, ok bool, err error) {
	err = g.call(ctx, event, "allow", func(ctx context.Context) error {
		r, err := g.limiter.Allow(ctx, g.limitKey(event, name), redis_rate.PerMinute(perMinute))
		if err != nil {
			return err
		}
		if ok = r.Allowed > 0; !ok {
			retry = max(r.RetryAfter, time.Millisecond)
		}
		return nil
	})
	if err == nil {
		g.settle(ctx)
	}
	return retry, ok, err
}

func (g *Gate) limitKey(event int64, name string) string {
	return g.cfg.Prefix + "holds:{" + strconv.FormatInt(event, 10) + "}:" + name
}

// digest stands for a customer in a key: 22 characters.
func digest(customer string) string {
	sum := sha256.Sum256([]byte(customer))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// nodeLimits is the limit as one node counts it.
type nodeLimits struct {
	mu   sync.Mutex // over a reservation and its cancelling too: one made in between would not be given back
	seen *recent.Cache[limitOf, *rate.Limiter]
}

type limitOf struct {
	event     int64
	customer  string // its digest
	perMinute int
}

func (n *nodeLimits) allow(now time.Time, of limitOf) (retry time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	bucket, known := n.seen.Get(of)
	if !known {
		bucket = rate.NewLimiter(rate.Limit(float64(of.perMinute)/60), of.perMinute)
		n.seen.Put(of, bucket)
	}
	r := bucket.ReserveN(now, 1)
	if retry = r.DelayFrom(now); retry == 0 {
		return 0, true
	}
	r.CancelAt(now)
	return retry, false
}
