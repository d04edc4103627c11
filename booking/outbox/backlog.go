package outbox

import (
	"context"
	"time"
)

const measureEvery = 5 * time.Second

// Backlog is the outbox as this node measured it last.
type Backlog struct {
	Pending int64         // events in the table; an estimate above 100,000
	Oldest  time.Duration // age of the one with the lowest seq; 0 if there is none
	Stuck   int64         // events that the broker refuses for good, of at most 100,000 that are counted
}

// Backlog is measured every 5 s while Run runs.
func (r *Relay) Backlog() Backlog { return *r.backlog.Load() }

// backlogSQL counts up to 100,000 rows and takes the planner's estimate beyond.
const backlogSQL = `
SELECT CASE WHEN n <= 100000 THEN n
            ELSE greatest(n, (SELECT reltuples::bigint FROM pg_class WHERE oid = 'bk.outbox'::regclass)) END,
       coalesce((SELECT extract(epoch FROM now() - created_at) FROM bk.outbox ORDER BY seq LIMIT 1), 0)::float8,
       stuck
  FROM (SELECT count(*) AS n, count(stuck) AS stuck
          FROM (SELECT stuck FROM bk.outbox LIMIT 100001) first_ones) counted`

func (r *Relay) measure(ctx context.Context) {
	for ctx.Err() == nil {
		if b, err := r.look(ctx); err == nil {
			r.backlog.Store(&b)
			r.metrics.measure(b)
		}
		sleep(ctx, measureEvery)
	}
}

func (r *Relay) look(ctx context.Context) (b Backlog, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureEvery)
	defer cancel()
	var seconds float64
	err = r.pool.QueryRow(ctx, backlogSQL).Scan(&b.Pending, &seconds, &b.Stuck)
	b.Oldest = max(0, time.Duration(seconds*float64(time.Second)))
	return b, err
}
