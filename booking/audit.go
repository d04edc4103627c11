package booking

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Finding is one broken rule.
type Finding struct {
	Rule string // what must always hold, in words
	What string // of which booking, payment, refund or event/seat it does not
}

// Times after which the audit finds fault: with a payment that nobody has settled, with a refund that isn't through.
const (
	pendingTooLong   = 90 * time.Minute
	refundingTooLong = 24 * time.Hour
)

// Audit returns every broken rule of all events, at most 1,000; none if all is well. It reads one consistent picture and may
// run on a replica, or beside a sale.
func Audit(ctx context.Context, pool *pgxpool.Pool) ([]Finding, error) {
	return audit(ctx, pool, time.Unix(0, 0), nil)
}

// Audit is the function of the same name over the core's own pool and clock.
func (c *Core) Audit(ctx context.Context) ([]Finding, error) {
	return audit(ctx, c.work, time.Unix(0, 0), c.now())
}

func audit(ctx context.Context, pool *pgxpool.Pool, since time.Time, now *time.Time) (found []Finding, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '5min'; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = on`, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, auditSQL, pgx.NamedArgs{"since": since, "now": now, "pending": pendingTooLong, "refunding": refundingTooLong})
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Finding])
		return err
	})
	return found, cause(ctx, err)
}

// findings are those of the last audit that this node made.
type findings struct {
	mu   sync.Mutex
	list []Finding
	at   time.Time
	err  error
}

// LastAudit returns what the last audit by this node found, and when; the zero time if there was none yet.
func (c *Core) LastAudit() (found []Finding, at time.Time, err error) {
	c.found.mu.Lock()
	defer c.found.mu.Unlock()
	return c.found.list, c.found.at, c.found.err
}

// auditRecent looks at the events that are not over since a day, and says what it finds.
func (c *Core) auditRecent(ctx context.Context) error {
	now, known := c.clock.read()
	if !known {
		now = time.Now()
	}
	found, err := audit(ctx, c.work, now.Add(-24*time.Hour), c.now())
	c.found.mu.Lock()
	c.found.list, c.found.at, c.found.err = found, time.Now(), err
	c.found.mu.Unlock()
	if err != nil {
		return err
	}
	c.metrics.audited(len(found))
	for _, f := range found {
		c.log.Error("audit", "rule", f.Rule, "what", f.What)
	}
	return nil
}
