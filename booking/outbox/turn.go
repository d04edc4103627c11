package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	batch       = 1000                   // rows in one transaction
	beatEvery   = 150 * time.Millisecond // with looks every 100 ms: a heartbeat each 200 ms
	transaction = 4 * time.Second        // of a transaction of ours, below idle_in_transaction_session_timeout of 5 s
	patience    = 300 * time.Millisecond // for a broker while nodes wait to be told
	publishing  = 2 * time.Second        // for a broker while nobody waits
	swift       = 150 * time.Millisecond // a broker that takes longer is slow
)

// teller tells of one shard.
type teller struct {
	relay *Relay
	shard int
	beat  time.Time // when it last sent a heartbeat
}

// turn is one transaction: it tells of the rows that nobody told of yet, and publishes and deletes them if the broker is near.
// Otherwise it marks them as told and leaves them to the drain. more says that another turn is worth taking at once.
func (t *teller) turn(ctx context.Context) (more bool, err error) {
	err = t.relay.within(ctx, tellLock+t.shard, func(ctx context.Context, tx pgx.Tx) error {
		near := t.relay.cfg.Sink != nil && t.relay.near.Load()
		rows, near, err := t.untold(ctx, tx, near)
		if err != nil {
			return err
		}
		more = len(rows) == batch
		if err := t.notify(ctx, tx, rows, !more); err != nil || len(rows) == 0 {
			return err
		}
		if t.relay.cfg.Sink == nil || near && t.publish(ctx, tx, rows) {
			return remove(ctx, tx, rows)
		}
		defer t.relay.rouse()
		_, err = tx.Exec(ctx, `UPDATE bk.outbox SET told = true WHERE seq = ANY ($1)`, seqs(rows))
		return err
	})
	return more, err
}

// untold reads the next rows. Those may be published at once only if no older ones wait, which near asks and answers.
func (t *teller) untold(ctx context.Context, tx pgx.Tx, near bool) ([]row, bool, error) {
	if near {
		rows, err := read(ctx, tx, `WHERE shard = $1`, t.shard)
		if err != nil || !anyTold(rows) {
			return rows, true, err
		}
	}
	rows, err := read(ctx, tx, `WHERE shard = $1 AND NOT told`, t.shard)
	return rows, false, err
}

// notify tells of the rows, and that this is all if it is.
func (t *teller) notify(ctx context.Context, tx pgx.Tx, rows []row, all bool) error {
	texts := messages(t.shard, events(rows))
	if all && (len(rows) > 0 || time.Since(t.beat) >= beatEvery) {
		texts = append(texts, heartbeat(t.shard))
		t.beat = time.Now()
	}
	if len(texts) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, m) FROM unnest($2::text[]) m`, channel, texts)
	return err
}

// publish says whether the broker has all the rows. If it does not answer soon, the nodes are told first.
func (t *teller) publish(ctx context.Context, tx pgx.Tx, rows []row) bool {
	r := t.relay
	if mine, err := lock(ctx, tx, publishLock+t.shard); err != nil || !mine {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.cfg.Sink.Publish(ctx, events(rows))
	if err == nil {
		r.metrics.publish(rows)
		return true
	}
	if _, stuck := errors.AsType[*StuckError](err); !stuck {
		r.near.Store(false)
		r.metrics.failures.Inc()
	}
	return false
}
