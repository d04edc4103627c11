// Package recent remembers what was used recently, in bounded memory.
//
// A [Cache] keeps two generations of entries. New and newly used entries go into the young one; when it holds half of
// the allowed number it becomes the old one, and what was old, and not used since, is forgotten all at once. That is
// nearly as good as forgetting the least recently used entry, and a hit needs no list to be reordered: entries of the
// young generation are read under a shared lock.
package recent

import "sync"

// Cache maps keys to values and forgets those not used for a while. Make one with [New]. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	half int // entries that fill a generation; 0 = nothing is remembered

	mu         sync.RWMutex
	young, old map[K]V // a key in both has its current value in young
}

// New returns an empty cache of at most max entries, rounded up to an even number. With a max of 0 or less it
// remembers nothing.
func New[K comparable, V any](max int) *Cache[K, V] {
	c := &Cache[K, V]{half: (max + 1) / 2}
	if max <= 0 {
		c.half = 0
	}
	c.Clear()
	return c
}

// Get returns the value of k and whether k is remembered, and counts as a use of k.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	c.mu.RLock()
	v, ok := c.young[k]
	_, aged := c.old[k]
	c.mu.RUnlock()
	if ok || !aged {
		return v, ok
	}
	return c.renew(k)
}

// Put remembers v as the value of k.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(k, v)
}

// Delete forgets k.
func (c *Cache[K, V]) Delete(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.young, k)
	delete(c.old, k)
}

// Clear forgets everything.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = make(map[K]V), nil
}

// renew moves k from the old generation to the young one. It looks again: since Get let go of the lock, k may have
// been put anew, deleted or forgotten.
func (c *Cache[K, V]) renew(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.young[k]; ok {
		return v, true
	}
	v, ok := c.old[k]
	if ok {
		c.put(k, v)
	}
	return v, ok
}

func (c *Cache[K, V]) put(k K, v V) {
	if c.half == 0 {
		return
	}
	if _, ok := c.young[k]; !ok && len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[K]V)
	}
	c.young[k] = v
}
