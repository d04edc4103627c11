package queue

import (
	"context"
	"time"
)

// Lead takes the room's lease for holder, or renews it, for ttl. It returns the term, which grows with every tenure and
// is above seen, or 0 while another node leads.
func (l *Line) Lead(ctx context.Context, holder string, ttl time.Duration, seen int64) (term int64, err error) {
	return l.call(ctx, "lead", leadScript, l.k.with(), holder, ttl.Milliseconds(), seen).Int64()
}

// Resign gives the lease up if holder has it.
func (l *Line) Resign(ctx context.Context, holder string) error {
	return l.call(ctx, "resign", resignScript, l.k.with(), holder).Err()
}
