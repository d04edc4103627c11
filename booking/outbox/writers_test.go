package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// writers is a shop in which 24 writers add events of 12 keys at once, in transactions of 0 to 3 ms. Those of one key wait
// for each other, as the writers of one seat do. Some roll back. It returns how many events were committed.
func (s *shop) writers(each int) (committed int) {
	s.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for writer := range 24 {
		all.Go(func() {
			for range each {
				key := fmt.Sprint(1 + rand.IntN(12))
				undone := fmt.Errorf("undone")
				err := pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
					ctx := s.t.Context()
					if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(9000, $1::text::int)`, key); err != nil {
						return err
					}
					if err := insert(ctx, tx, key, fmt.Sprintf(`{"writer":%d}`, writer)); err != nil {
						return err
					}
					time.Sleep(time.Duration(rand.IntN(3001)) * time.Microsecond) // the rest of the transaction
					if rand.IntN(10) == 0 {
						return undone
					}
					return nil
				})
				switch {
				case err == nil:
					mu.Lock()
					committed++
					mu.Unlock()
				case err != undone:
					s.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return committed
}

func TestRelay_OverlappingWritersLoseAndReorderNothing(t *testing.T) {
	s, sink := newShop(t), &memory{}
	_, heard := s.feed()
	s.relay(RelayConfig{Sink: sink, Interval: time.Millisecond})
	committed := s.writers(100)
	await(t, "an empty outbox", s.empty)
	got := sink.events()
	if len(firsts(got)) != committed {
		t.Errorf("published %d of %d events", len(firsts(got)), committed)
	}
	if n := inversions(firsts(got)); n > 0 {
		t.Errorf("%d events came after a later one of their key", n)
	}
	await(t, "the feed", func() bool { return len(firsts(heard.events())) == committed })
	if n := inversions(firsts(heard.events())); n > 0 {
		t.Errorf("the feed passed on %d events after a later one of their key", n)
	}
	t.Logf("written %d, published %d, repeated %d", committed, len(firsts(got)), len(got)-len(firsts(got)))
}

func TestRelay_SeveralAtOnceKeepTheOrder(t *testing.T) {
	s, sink := newShop(t), &memory{}
	for range 4 {
		s.relay(RelayConfig{Sink: sink, Interval: time.Millisecond})
	}
	committed := s.writers(100)
	await(t, "an empty outbox", s.empty)
	got := sink.events()
	if len(firsts(got)) != committed {
		t.Errorf("published %d of %d events", len(firsts(got)), committed)
	}
	t.Logf("repeated %d", len(got)-len(firsts(got)))
	if n := inversions(firsts(got)); n > 0 {
		t.Errorf("%d events came after a later one of their key", n)
	}
}

// The control: with the same writers a relay that remembers how far it came loses events. Were it not so, the tests above
// would prove nothing.
func TestRelay_ACursorWouldLoseEvents(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	var published int
	done := make(chan struct{})
	go func() {
		defer close(done)
		var last int64
		for finished := false; !finished; {
			finished = ctx.Err() != nil // one more look after the last writer
			rows, err := s.pool.Query(t.Context(), `SELECT seq FROM bk.outbox WHERE seq > $1 ORDER BY seq`, last)
			if err != nil {
				t.Error(err)
				return
			}
			found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				t.Error(err)
				return
			}
			for _, seq := range found {
				published++
				last = seq
			}
		}
	}()
	committed := s.writers(100)
	cancel()
	<-done
	if published >= committed {
		t.Errorf("a cursor found all of %d events", committed)
	}
	t.Logf("a cursor lost %d of %d events", committed-published, committed)
}

func TestRelay_EventThatCommitsLateIsPublished(t *testing.T) {
	s, sink := newShop(t), &memory{}
	s.relay(RelayConfig{Sink: sink})
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if err := insert(t.Context(), tx, "7", `{"late":true}`); err != nil {
		t.Fatal(err)
	}
	s.write("7", 2)
	await(t, "the event that was committed first", func() bool { return len(sink.events()) == 1 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the event that was committed late", func() bool { return len(sink.events()) == 2 })
	if got := sink.events(); got[1].Seq > got[0].Seq {
		t.Errorf("got %d, %d: the late one is not the older one, so this proves nothing", got[0].Seq, got[1].Seq)
	}
	await(t, "an empty outbox", s.empty)
}

func TestRelay_WhatIsRolledBackIsNeverTold(t *testing.T) {
	s, sink := newShop(t), &memory{}
	_, heard := s.feed()
	s.relay(RelayConfig{Sink: sink})
	err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		if err := insert(t.Context(), tx, "7", `{"undone":true}`); err != nil {
			t.Error(err)
		}
		return context.Canceled
	})
	if err != context.Canceled {
		t.Fatal(err)
	}
	s.write("7", 1)
	await(t, "the event that was committed", func() bool { return len(heard.events()) > 0 && s.empty() })
	if a, b := len(sink.events()), len(heard.events()); a != 1 || b != 1 {
		t.Errorf("published %d and told %d events of the one that was committed", a, b)
	}
}
