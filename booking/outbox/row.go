package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Advisory locks (4711, n) that end with their transaction; n is one of these and the shard.
const (
	tellLock    = 0  // 0 to 3: who tells of a shard
	publishLock = 16 // 16 to 19: who publishes one; taken second where both are
)

// row is an event and what became of it so far.
type row struct {
	Event
	told  bool
	stuck bool
}

// within runs do in a transaction that has the lock, or not at all while somebody else has it. A transaction that has begun
// is not given up when ctx ends: what the broker has just acknowledged would come again.
func (r *Relay) within(ctx context.Context, number int, do func(context.Context, pgx.Tx) error) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transaction)
	defer cancel()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// A statement of its own: the next one's snapshot has everything that the last owner of the lock did.
		mine, err := lock(ctx, tx, number)
		if err != nil || !mine {
			return err
		}
		return do(ctx, tx)
	})
}

// lockSQL also sets up the transaction. It does not wait for the disk: what a crash of Postgres takes back comes again. And it
// reads the rows in the order of an index: on a table that filled up since it was last analyzed the planner would sort all of
// them for each batch.
const lockSQL = `
SELECT pg_try_advisory_xact_lock(4711, $1)
  FROM set_config('synchronous_commit', 'off', true) disk,
       set_config('enable_sort', 'off', true) sort,
       set_config('enable_bitmapscan', 'off', true) bitmap`

// lock says whether tx has the advisory lock now.
func lock(ctx context.Context, tx pgx.Tx, number int) (mine bool, err error) {
	err = tx.QueryRow(ctx, lockSQL, number).Scan(&mine)
	return mine, err
}

func readSQL(where string) string {
	return fmt.Sprintf(`
SELECT seq, id, topic, aggregatetype, aggregateid, type, payload, created_at, told, stuck IS NOT NULL
  FROM bk.outbox
 %s
 ORDER BY seq
 LIMIT %d`, where, batch)
}

// read returns the first rows of those that where names, in order of seq.
func read(ctx context.Context, tx pgx.Tx, where string, args ...any) ([]row, error) {
	found, err := tx.Query(ctx, readSQL(where), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(line pgx.CollectableRow) (w row, err error) {
		err = line.Scan(&w.Seq, &w.ID, &w.Topic, &w.AggregateType, &w.Key, &w.Type, (*[]byte)(&w.Payload), &w.At, &w.told, &w.stuck)
		w.At = w.At.UTC()
		return w, err
	})
}

func remove(ctx context.Context, tx pgx.Tx, rows []row) error {
	_, err := tx.Exec(ctx, `DELETE FROM bk.outbox WHERE seq = ANY ($1)`, seqs(rows))
	return err
}

func seqs(rows []row) []int64 {
	out := make([]int64, len(rows))
	for i := range rows {
		out[i] = rows[i].Seq
	}
	return out
}

func events(rows []row) []Event {
	out := make([]Event, len(rows))
	for i := range rows {
		out[i] = rows[i].Event
	}
	return out
}

func anyTold(rows []row) bool {
	for i := range rows {
		if rows[i].told {
			return true
		}
	}
	return false
}
