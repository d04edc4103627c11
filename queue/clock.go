package queue

import (
	"sync"
	"time"
)

// Clock tells Redis's time on a node: the monotonic clock of the process plus the offset last measured. Before the
// first measurement it is the node's own time. The zero value is ready; it is safe for concurrent use.
type Clock struct {
	mu    sync.RWMutex
	local time.Time // with its monotonic reading
	redis time.Time
}

// Now is Redis's time, as well as this node knows it.
func (c *Clock) Now() time.Time {
	local := time.Now()
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.redis.IsZero() {
		return local
	}
	return c.redis.Add(local.Sub(c.local))
}

// set notes that Redis said millis in an answer to a request that went out at sent: the instant half way is taken. An answer
// that took long says little and is passed over while a better one is fresh.
func (c *Clock) set(millis int64, sent time.Time) {
	got := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got.Sub(sent) > 200*time.Millisecond && got.Sub(c.local) < time.Minute && !c.redis.IsZero() {
		return
	}
	c.local = sent.Add(got.Sub(sent) / 2)
	c.redis = time.UnixMilli(millis)
}
