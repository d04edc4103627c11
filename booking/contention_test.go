package booking_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
)

// atOnce calls do for 0 to n-1, each from its own goroutine, all let go by one latch, and returns when all are through.
func atOnce(n int, do func(i int)) {
	latch := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range n {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-latch
			do(i)
		}()
	}
	ready.Wait()
	close(latch)
	done.Wait()
}

// wide is a pool of n connections that are open, so that n statements start together.
func wide(t testing.TB, url string, n int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = n
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	open := make([]*pgxpool.Conn, n)
	for i := range open {
		if open[i], err = pool.Acquire(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range open {
		c.Release()
	}
	return pool
}

// one reads a single value.
func one[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// do runs a statement, or ends the test.
func do(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// rawHold is a hold as a statement says it, without the core in front. Its seats are sorted.
type rawHold struct {
	customer string
	seats    []string
	key      string    // "" = none
	body     string    // what the request's hash is made of
	replaces uuid.UUID // zero = none
	now      *time.Time
}

// rawAnswer is what bk.hold_seats says.
type rawAnswer struct {
	outcome   string
	hold      *uuid.UUID
	expires   *time.Time
	conflicts []string
}

const rawHoldSQL = `
SELECT outcome, hold_id, expires_at, conflicts
  FROM bk.hold_seats($1, 42, $2, NULL, $3, NULL, NULL, 300000, nullif($4, ''), sha256($5::bytea), 1, $6, $7)`

func (r rawHold) ask(t testing.TB, q querier) (a rawAnswer) {
	t.Helper()
	var replaces *uuid.UUID
	if r.replaces != uuid.Nil {
		replaces = &r.replaces
	}
	err := q.QueryRow(context.Background(), rawHoldSQL, uuid.Must(uuid.NewV7()), r.seats, r.customer, r.key, []byte(r.body), replaces, r.now).
		Scan(&a.outcome, &a.hold, &a.expires, &a.conflicts)
	if err != nil {
		t.Errorf("hold_seats for %s: %v", r.customer, err)
	}
	return a
}

// nodes are n cores on one database.
func nodes(t testing.TB, url string, n int, cfg booking.Config) []*booking.Core {
	t.Helper()
	all := make([]*booking.Core, n)
	for i := range all {
		all[i] = bookingtest.Core(t, url, cfg)
	}
	return all
}

// closingNodes are like nodes, but the test can close their pools before its end: only what a connection reports as it ends
// makes the server's count of deadlocks complete.
func closingNodes(t testing.TB, url string, n int, cfg booking.Config) (all []*booking.Core, end func()) {
	t.Helper()
	var pools []*pgxpool.Pool
	for range n {
		holds, err := booking.OpenHolds(context.Background(), url, 6)
		if err != nil {
			t.Fatal(err)
		}
		work, err := booking.OpenWork(context.Background(), url, 10)
		if err != nil {
			t.Fatal(err)
		}
		pools = append(pools, holds, work)
		all = append(all, booking.New(holds, work, cfg))
	}
	end = sync.OnceFunc(func() {
		for _, p := range pools {
			p.Close()
		}
	})
	t.Cleanup(end)
	return all, end
}

// deadlocks is how many deadlocks the server counted in the database. The pools of its cores have been closed.
func deadlocks(t testing.TB, url string) int {
	t.Helper()
	pool := bookingtest.Pool(t, url)
	const cores = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'ropeline %'`
	eventually(t, "the cores' connections end", func() bool { return one[int](t, pool, cores) == 0 })
	return one[int](t, pool, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
}

// eventually waits until something holds, for as long as a very busy machine needs.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// heldBy are the holds that hold seats of event 42, and the seats.
func heldBy(t testing.TB, pool *pgxpool.Pool) (holds, seats int) {
	t.Helper()
	err := pool.QueryRow(context.Background(), `SELECT count(DISTINCT booking_id), count(*) FROM bk.seat WHERE event_id = 42 AND status = 'HELD'`).Scan(&holds, &seats)
	if err != nil {
		t.Fatal(err)
	}
	return holds, seats
}

func TestContention_TwentyAtOnceForTheSamePairHaveOneWinner(t *testing.T) {
	ways := map[string]func(t *testing.T, url string, pool *pgxpool.Pool) func(i int, customer string, pair []string) (won bool){
		"one node":  throughCore(1),
		"two nodes": throughCore(2),
		"hold_seats": func(t *testing.T, _ string, pool *pgxpool.Pool) func(int, string, []string) bool {
			return func(_ int, customer string, pair []string) bool {
				a := rawHold{customer: customer, seats: pair}.ask(t, pool)
				if a.outcome != "held" && a.outcome != "taken" {
					t.Errorf("outcome %s", a.outcome)
				}
				return a.outcome == "held"
			}
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			url := bookingtest.Database(t)
			bookingtest.Open(t, url, bookingtest.Sale{})
			pool := wide(t, url, 20)
			hold := way(t, url, pool)
			const rounds = 10
			for round := range rounds {
				pair := []string{bookingtest.Seat(round, 4), bookingtest.Seat(round, 5)} // A5 A6, ... F5 F6, ...
				won := make([]bool, 20)
				atOnce(len(won), func(i int) { won[i] = hold(i, fmt.Sprint("c", round, "-", i), pair) })
				if n := trues(won); n != 1 {
					t.Fatalf("%v: %d winners of 20, want 1", pair, n)
				}
				holder := one[int](t, pool, `SELECT count(DISTINCT booking_id) FROM bk.seat WHERE seat_code = ANY ($1) AND status = 'HELD'`, pair)
				if holder != 1 {
					t.Fatalf("%v are held by %d holds, want 1", pair, holder)
				}
			}
			if holds, seats := heldBy(t, pool); holds != rounds || seats != 2*rounds {
				t.Errorf("%d holds of %d seats, want %d of %d", holds, seats, rounds, 2*rounds)
			}
			if n := one[int](t, pool, `SELECT count(*) FROM bk.booking`); n != rounds {
				t.Errorf("%d bookings, want %d: a loser wrote one", n, rounds)
			}
			if n := one[int](t, pool, `SELECT count(*) FROM bk.outbox`); n != rounds {
				t.Errorf("%d events, want %d", n, rounds)
			}
			clean(t, bookingtest.Core(t, url, booking.Config{}))
		})
	}
}

// throughCore asks n cores in turn.
func throughCore(n int) func(*testing.T, string, *pgxpool.Pool) func(int, string, []string) bool {
	return func(t *testing.T, url string, _ *pgxpool.Pool) func(int, string, []string) bool {
		cores := nodes(t, url, n, booking.Config{})
		return func(i int, customer string, seats []string) bool {
			seats = slices.Clone(seats)
			if i%2 == 1 {
				slices.Reverse(seats)
			}
			_, _, err := cores[i%n].Hold(context.Background(), holdOf(customer, seats...))
			var taken *booking.TakenError
			if err != nil && !errors.As(err, &taken) {
				t.Errorf("hold: %v", err)
			}
			return err == nil
		}
	}
}

func trues(all []bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

func TestContention_AnExpiredPairHasOneNewHolderOfTwenty(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	k := newClock()
	cores := nodes(t, url, 2, booking.Config{Now: k.Now})
	mustHold(t, cores[0], holdOf("first", "F5", "F6"))
	for _, wind := range []time.Duration{0, 10*time.Minute - time.Millisecond} {
		k.forward(wind)
		if _, _, err := cores[1].Hold(context.Background(), holdOf("early", "F5", "F6")); !errors.As(err, new(*booking.TakenError)) {
			t.Fatalf("a live hold was taken over: %v", err)
		}
	}
	k.forward(time.Millisecond)
	won := make([]bool, 20)
	atOnce(len(won), func(i int) {
		_, _, err := cores[i%2].Hold(context.Background(), holdOf(fmt.Sprint("c", i), "F5", "F6"))
		won[i] = err == nil
	})
	if n := trues(won); n != 1 {
		t.Errorf("%d winners, want 1", n)
	}
	if holds, seats := heldBy(t, bookingtest.Pool(t, url)); holds != 1 || seats != 2 {
		t.Errorf("%d holds of %d seats, want 1 of 2", holds, seats)
	}
	clean(t, cores[0])
}

func TestContention_FiftyForOneDearSeatHaveOneWinner(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{MaxSeats: 4})
	pool := wide(t, url, 50)
	do(t, pool, `INSERT INTO bk.map_seat (map_id, seat_code, section, row_key, pos, tier) VALUES (42, 'A-12', 'VIP', 'A', 12, 'VIP'), (42, 'A-13', 'VIP', 'A', 13, 'VIP')`)
	do(t, pool, `INSERT INTO bk.event_price VALUES (42, 'VIP', 'standard', 3000000)`)
	do(t, pool, `INSERT INTO bk.seat (event_id, seat_code) VALUES (42, 'A-12'), (42, 'A-13')`)
	cores := nodes(t, url, 2, booking.Config{})
	won, raw := make([]bool, 50), make([]bool, 50)
	atOnce(100, func(n int) {
		i := n / 2
		if n%2 == 1 {
			raw[i] = rawHold{customer: fmt.Sprint("raw", i), seats: []string{"A-13"}}.ask(t, pool).outcome == "held"
			return
		}
		b, _, err := cores[i%2].Hold(context.Background(), holdOf(fmt.Sprint("c", i), "A-12"))
		won[i] = err == nil
		if err == nil && b.Amount != (booking.Money{Amount: 3_000_000, Currency: "VND"}) {
			t.Errorf("amount %+v", b.Amount)
		}
	})
	if a, b := trues(won), trues(raw); a != 1 || b != 1 {
		t.Errorf("%d winners through the core and %d through hold_seats, want 1 and 1", a, b)
	}
	for _, seat := range []string{"A-12", "A-13"} {
		if s := one[string](t, pool, `SELECT status FROM bk.seat WHERE event_id = 42 AND seat_code = $1`, seat); s != "HELD" {
			t.Errorf("%s is %s, want HELD", seat, s)
		}
	}
	clean(t, cores[0])
}

func TestContention_TwentyAtOnceWithOneKeyAreOneHold(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	pool := wide(t, url, 20)
	cores := nodes(t, url, 2, booking.Config{})
	for round := range 10 {
		seats := []string{bookingtest.Seat(round, 0), bookingtest.Seat(round, 1)}
		ids, made := make([]uuid.UUID, 20), make([]bool, 20)
		atOnce(len(ids), func(i int) {
			if round%2 == 1 {
				a := rawHold{customer: "ann", seats: seats, key: fmt.Sprint("k", round)}.ask(t, pool)
				if a.hold == nil || a.outcome != "held" && a.outcome != "replay" {
					t.Errorf("outcome %s", a.outcome)
					return
				}
				ids[i], made[i] = *a.hold, a.outcome == "held"
				return
			}
			r := holdOf("ann", seats...)
			r.Key = fmt.Sprint("k", round)
			b, replayed, err := cores[i%2].Hold(context.Background(), r)
			if err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			ids[i], made[i] = b.ID, !replayed
		})
		if n := trues(made); n != 1 {
			t.Errorf("round %d: the hold was made %d times, want once", round, n)
		}
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if all := slices.Compact(ids); len(all) != 1 {
			t.Errorf("round %d: answers name %d holds, want 1", round, len(all))
		}
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.booking`); n != 10 {
		t.Errorf("%d bookings, want 10", n)
	}
	clean(t, cores[0])
}

func TestContention_OneKeyWithTwentyBodiesHoldsForOneOfThem(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Rows: 20})
	bookingtest.Open(t, url, bookingtest.Sale{Event: 43, Rows: 20})
	cores := nodes(t, url, 2, booking.Config{})
	for round := range 5 {
		errs := make([]error, 20)
		atOnce(len(errs), func(i int) {
			r := holdOf("ann", bookingtest.Seat(i, round))
			r.Key = fmt.Sprint("k", round)
			r.Event += int64(i % 4 / 2) // each event has lanes of its own
			_, _, errs[i] = cores[i%2].Hold(context.Background(), r)
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, booking.ErrKeyReuse) {
				t.Errorf("round %d: %v, want %v", round, err, booking.ErrKeyReuse)
			}
		}
		if won != 1 {
			t.Errorf("round %d: %d holds under one key, want 1", round, won)
		}
	}
	if holds, seats := one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.booking`), one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.seat WHERE status = 'HELD'`); holds != 5 || seats != 5 {
		t.Errorf("%d holds of %d seats, want 5 of 5", holds, seats)
	}
	clean(t, cores[0])
}

func TestContention_TwentyParallelHoldsNeverPassTheCap(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Rows: 20, PerRow: 20, Cap: 4})
	pool := wide(t, url, 20)
	cores := nodes(t, url, 2, booking.Config{})
	for round := range 8 {
		customer := fmt.Sprint("c", round)
		won := make([]bool, 20)
		atOnce(len(won), func(i int) {
			seats := []string{bookingtest.Seat(i, 2*round), bookingtest.Seat(i, 2*round+1)}
			if round%2 == 1 {
				a := rawHold{customer: customer, seats: seats}.ask(t, pool)
				if won[i] = a.outcome == "held"; !won[i] && a.outcome != "cap_reached" {
					t.Errorf("outcome %s", a.outcome)
				}
				return
			}
			_, _, err := cores[i%2].Hold(context.Background(), holdOf(customer, seats...))
			var limit *booking.LimitError
			if won[i] = err == nil; !won[i] && (!errors.As(err, &limit) || limit.Cap != 4) {
				t.Errorf("hold: %v", err)
			}
		})
		if n := trues(won); n != 2 {
			t.Errorf("%s: %d holds of 2 under a cap of 4, want 2", customer, n)
		}
		if n := one[int](t, pool, `SELECT sum(quantity)::int FROM bk.booking WHERE customer = $1`, customer); n != 4 {
			t.Errorf("%s has %d seats, want 4", customer, n)
		}
	}
	clean(t, cores[0])
}

func TestContention_OverlappingPairsInEitherOrderEndWithoutADeadlock(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Rows: 1, PerRow: 12})
	cores, end := closingNodes(t, url, 2, booking.Config{})
	for round := range 20 {
		holds := make([]uuid.UUID, 24)
		atOnce(len(holds), func(i int) { // a ring: each pair overlaps its neighbours
			a, b := bookingtest.Seat(0, i%12), bookingtest.Seat(0, (i+1)%12)
			if i >= 12 {
				a, b = b, a
			}
			got, _, err := cores[i%2].Hold(context.Background(), holdOf(fmt.Sprint("c", i), a, b))
			if err == nil {
				holds[i] = got.ID
			} else if !errors.As(err, new(*booking.TakenError)) {
				t.Errorf("round %d: %v", round, err)
			}
		})
		won := 0
		for i, id := range holds {
			if id != uuid.Nil {
				won++
				if err := cores[i%2].Release(context.Background(), id, fmt.Sprint("c", i)); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		}
		if won < 4 || won > 6 { // of a ring of 12 no fewer than 4 pairs leave none to take
			t.Errorf("round %d: %d winners, want 4 to 6", round, won)
		}
	}
	clean(t, cores[0])
	end()
	if n := deadlocks(t, url); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func TestContention_ALoserTakesNoLockAndWritesNothing(t *testing.T) {
	c, _, _, url := shop(t, bookingtest.Sale{Cap: 4})
	mustHold(t, c, holdOf("ann", "F5", "F6", "F7", "F8"))
	pool := bookingtest.Pool(t, url)
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, r := range []rawHold{
		{customer: "bob", seats: []string{"F5"}},
		{customer: "bob", seats: []string{"F4", "F5"}, key: "k"},
		{customer: "ann", seats: []string{"A1"}}, // her cap is full
	} {
		if a := r.ask(t, tx); a.outcome != "taken" && a.outcome != "cap_reached" {
			t.Errorf("%+v: outcome %s", r, a.outcome)
		}
		var id *string
		var locks int
		err := tx.QueryRow(context.Background(), `
SELECT pg_current_xact_id_if_assigned()::text, (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'tuple')`).Scan(&id, &locks)
		if err != nil || id != nil || locks != 0 {
			t.Errorf("%+v: transaction id %v, %d row locks, %v, want none", r, id, locks, err)
		}
	}
}
