package booking

import "context"

// Trusts says whether the table of an event is in use: read, and fed within the last moment.
func (c *Core) Trusts(event int64) bool {
	c.boards.mu.RLock()
	b := c.boards.of[event]
	c.boards.mu.RUnlock()
	if b == nil || !c.fresh(event) {
		return false
	}
	_, known := c.clock.read()
	b.mu.RLock()
	defer b.mu.RUnlock()
	return known && !b.loaded.IsZero()
}

// Hurry makes refunds that wait for another try due now.
func (c *Core) Hurry(ctx context.Context) error {
	_, err := c.work.Exec(ctx, `UPDATE bk.refund SET next_try_at = now() WHERE status IN ('DUE','SENT') AND next_try_at > now()`)
	return cause(ctx, err)
}
