package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	probeFirst = 250 * time.Millisecond // pause after the first failure of the broker
	probeLast  = 5 * time.Second        // longest pause
)

// drain publishes the rows that were told and not published: those of a time without the broker, those that it was too
// slow for, and those that other nodes left.
func (r *Relay) drain(ctx context.Context) {
	defer r.near.Store(false)
	reached, pause := false, probeFirst
	for ctx.Err() == nil {
		if !reached {
			if err := r.probe(ctx); err != nil {
				pause = r.lost(ctx, err, pause)
				continue
			}
		}
		busy, err := r.pass(ctx)
		failure, fromPostgres := errors.AsType[*postgresError](err)
		switch {
		case fromPostgres:
			if ctx.Err() == nil {
				r.postgres.failed(shards, failure.error)
			}
			sleep(ctx, 10*r.cfg.Interval)
		case err != nil:
			reached, pause = false, r.lost(ctx, err, pause)
		default:
			r.postgres.over(shards)
			r.broker.over(0)
			reached, pause = true, probeFirst
			r.await(ctx, busy)
		}
	}
}

// probe asks, outside any transaction, whether the broker is there at all. That it is near it shows by taking events: the
// first ones after an outage go through here, where there is time.
func (r *Relay) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publishing)
	defer cancel()
	return r.cfg.Sink.Ping(ctx)
}

// lost waits after a failure of the broker and returns the pause after the next one.
func (r *Relay) lost(ctx context.Context, err error, pause time.Duration) time.Duration {
	r.near.Store(false)
	if ctx.Err() == nil {
		r.metrics.failures.Inc()
		r.broker.failed(0, err)
	}
	sleep(ctx, pause)
	return min(2*pause, probeLast)
}

// await returns when somebody rouses the drain, when it is time to look for rows of other nodes, or when ctx ends. A shard
// that is busy elsewhere may be left with rows.
func (r *Relay) await(ctx context.Context, busy bool) {
	pause := time.Second
	if busy {
		pause = r.cfg.Interval
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-r.wake:
	}
}

// pass empties the backlog, a batch of each shard in turn. It returns a *postgresError, or the broker's error. busy says that
// other nodes were at work on some shards.
func (r *Relay) pass(ctx context.Context) (busy bool, err error) {
	var passes [shards]shardPass
	for again := true; again && ctx.Err() == nil; {
		again = false
		for shard := range passes {
			p := &passes[shard]
			if p.done {
				continue
			}
			if err := p.step(ctx, r, shard); err != nil {
				return busy, err
			}
			busy = busy || p.busy
			again = again || !p.done
		}
	}
	return busy, nil
}

// postgresError tells the failures of the two stores apart.
type postgresError struct{ error }

// shardPass is one pass over the backlog of a shard.
type shardPass struct {
	stopped []string // keys that have an event which is stuck
	busy    bool     // another node has the shard
	done    bool
}

// step publishes and deletes one batch. The keys that are stopped are learned anew in every pass, from the rows themselves:
// the one that is stuck comes before those that wait behind it.
func (p *shardPass) step(ctx context.Context, r *Relay, shard int) error {
	p.busy, p.done = true, true
	var broker error
	err := r.within(ctx, publishLock+shard, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := read(ctx, tx, `WHERE shard = $1 AND told AND aggregateid <> ALL ($2)`, shard, append([]string{}, p.stopped...))
		if err != nil {
			return err
		}
		p.busy, p.done = false, len(rows) < batch
		if rows = p.passable(rows); len(rows) == 0 {
			return nil
		}
		broker = r.publish(ctx, rows)
		if stuck, is := errors.AsType[*StuckError](broker); is && slices.Contains(seqs(rows), stuck.Seq) {
			broker, p.done = nil, false
			return r.stick(ctx, tx, stuck, rows)
		}
		if broker != nil {
			return nil
		}
		return remove(ctx, tx, rows)
	})
	if err != nil {
		return &postgresError{err}
	}
	return broker
}

// publish also learns whether the broker is near.
func (r *Relay) publish(ctx context.Context, rows []row) error {
	ctx, cancel := context.WithTimeout(ctx, publishing)
	defer cancel()
	began := time.Now()
	err := r.cfg.Sink.Publish(ctx, events(rows))
	if err == nil {
		r.near.Store(time.Since(began) < swift)
		r.metrics.publish(rows)
	}
	return err
}

// passable leaves out the rows that are stuck and, of their keys, those behind them.
func (p *shardPass) passable(rows []row) []row {
	return slices.DeleteFunc(rows, func(w row) bool {
		stopped := slices.Contains(p.stopped, w.Key)
		if w.stuck && !stopped {
			p.stopped = append(p.stopped, w.Key)
		}
		return w.stuck || stopped
	})
}

// stick marks a row that the broker refuses for good.
func (r *Relay) stick(ctx context.Context, tx pgx.Tx, stuck *StuckError, rows []row) error {
	w := rows[slices.IndexFunc(rows, func(w row) bool { return w.Seq == stuck.Seq })]
	r.cfg.Logger.Error("outbox: event stuck, its key waits", "seq", w.Seq, "topic", w.Topic, "key", w.Key, "type", w.Type, "err", stuck.Reason)
	_, err := tx.Exec(ctx, `UPDATE bk.outbox SET stuck = $2 WHERE seq = $1`, stuck.Seq, stuck.Reason)
	return err
}
