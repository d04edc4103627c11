package booking_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
)

// These tests break what keeps a seat from being sold twice, and hold that it then shows: a suite that finds nothing here
// would find nothing anywhere.

// rulesOf are the rules that an audit found broken, each once, sorted.
func rulesOf(t testing.TB, c *booking.Core) []string {
	t.Helper()
	found, err := c.Audit(context.Background())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	rules := map[string]bool{}
	for _, f := range found {
		rules[f.Rule] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

// sellByLooking sells seats the wrong way: who sees a seat free buys it. It returns how many were told that they have it, and
// how many a unique index stopped.
func sellByLooking(t *testing.T, pool *pgxpool.Pool, buyers int, seat string) (sold, stopped int) {
	t.Helper()
	var all sync.WaitGroup
	all.Add(buyers)
	var nSold, nStopped atomic.Int64
	atOnce(buyers, func(i int) {
		ctx := context.Background()
		var status string
		err := pool.QueryRow(ctx, `SELECT status FROM bk.seat WHERE event_id = 42 AND seat_code = $1`, seat).Scan(&status)
		all.Done()
		all.Wait() // everybody has looked before anybody buys
		if err != nil || status != "AVAILABLE" {
			t.Errorf("%s, %v", status, err)
			return
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			id := uuid.Must(uuid.NewV7())
			for _, sql := range []string{
				`INSERT INTO bk.booking (booking_id, kind, customer, status, event_id, items, quantity, amount_minor, held_since, created_at, expires_at, resolved_at)
				 VALUES ($1, 'SEATS', $1::uuid::text, 'CONFIRMED', 42, ARRAY[$2::text], 1, 1, now(), now(), now() + interval '1 min', now())`,
				`INSERT INTO bk.payment (payment_id, booking_id, provider, provider_ref, idempotency_key, amount_minor, captured_minor, currency, status, checkout_expires_at, next_check_at)
				 VALUES ($1, $1, 'fake', $1::uuid::text || $2::text, 'k', 1, 1, 'VND', 'SUCCEEDED', now(), now())`,
				`UPDATE bk.seat SET status = 'SOLD', booking_id = $1 WHERE event_id = 42 AND seat_code = $2`,
				`INSERT INTO bk.ticket (booking_id, event_id, seat_code) VALUES ($1, 42, $2)`,
			} {
				if _, err := tx.Exec(ctx, sql, id, seat); err != nil {
					return err
				}
			}
			return nil
		})
		var pg *pgconn.PgError
		switch {
		case err == nil:
			nSold.Add(1)
		case errors.As(err, &pg) && pg.ConstraintName == "ticket_one_live":
			nStopped.Add(1)
		default:
			t.Error(err)
		}
	})
	return int(nSold.Load()), int(nStopped.Load())
}

func TestControl_LookThenBuySellsASeatManyTimesUnlessTheSchemaStopsIt(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	pool := wide(t, url, 20)
	c := bookingtest.Core(t, url, booking.Config{})
	if sold, stopped := sellByLooking(t, pool, 20, "F5"); sold != 1 || stopped != 19 {
		t.Errorf("with its guard: sold %d times, stopped %d, want 1 and 19", sold, stopped)
	}
	clean(t, c)
	do(t, pool, `DROP INDEX bk.ticket_one_live`)
	if sold, _ := sellByLooking(t, pool, 20, "F6"); sold != 20 {
		t.Errorf("without its guard: sold %d times, want 20: the control does not oversell", sold)
	}
	found, err := c.Audit(context.Background())
	if err != nil || len(found) != 19 || found[0].Rule != "confirmed booking without all its seats" {
		t.Errorf("audit: %v, %v, want 19 bookings without their seat", found, err)
	}
}

func TestControl_AHoldWithoutItsGuardStealsAndIsFound(t *testing.T) {
	c, p, _, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	robbed := mustHold(t, c, holdOf("ann", "F5", "F6"))
	co := checkout(t, c, robbed, "k")
	do(t, pool, `CREATE OR REPLACE FUNCTION bk.free(status text, hold_expires_at timestamptz, channel smallint, mask bigint, t timestamptz) RETURNS boolean
		LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT true'`)
	// Neither the look nor the lock pass asks any more whether a seat is free, nor does the update.
	def := one[string](t, pool, `SELECT pg_get_functiondef('bk.hold_seats'::regproc)`)
	thief := mustHold(t, bookingtest.Core(t, url, booking.Config{Now: newClock().Now}), holdOf("bob", "F6", "F7"))
	if !strings.Contains(def, "bk.free(") {
		t.Fatal("hold_seats asks otherwise whether a seat is free: this control is out of date")
	}
	if got := rulesOf(t, c); !slices.Equal(got, []string{"live hold with missing seats"}) {
		t.Errorf("audit: %v", got)
	}
	// The second guard: the money of the robbed hold goes back, and what is left of it is freed.
	wantTold(t, c, paidWord(co, "e1"), booking.OutcomeLate)
	wantStatus(t, c, thief, booking.Held)
	if err := c.SendRefunds(context.Background()); err != nil || p.total() != 600_000 {
		t.Errorf("%v, money back %d", err, p.total())
	}
}

func TestControl_APaymentThatDoesNotAskWhoseSeatItIsIsStoppedOrFound(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5", "F6"))
	co := checkout(t, c, b, "k")
	k.forward(10 * time.Minute)
	wantTold(t, c, paidWord(checkout(t, c, mustHold(t, c, holdOf("bob", "F6")), "k"), "e1"), booking.OutcomeConfirmed)

	// The statement of a callback, without its two guards: whose the seat is, and whether the hold is live.
	sql := statement(t, "paid")
	for _, cut := range []struct{ from, to string }{
		{"WHERE s.booking_id = b.booking_id AND s.status = 'HELD'", "WHERE true"},
		{"booking_id = CASE WHEN EXISTS (SELECT FROM won) THEN s.booking_id END", "booking_id = (SELECT booking_id FROM b)"},
		{"b.expires_at > (SELECT t FROM clk) AND", ""},
	} {
		if strings.Count(sql, cut.from) != 1 {
			t.Fatalf("the statement has no %q any more: this control is out of date", cut.from)
		}
		sql = strings.Replace(sql, cut.from, cut.to, 1)
	}
	args := pgx.NamedArgs{"provider": "fake", "event": "e2", "ref": co.PaymentID.String(), "amount": co.Amount.Amount, "currency": "VND", "charge": "", "now": k.Now()}
	var pg *pgconn.PgError
	if _, err := pool.Exec(ctx, sql, args); !errors.As(err, &pg) || pg.ConstraintName != "ticket_one_live" {
		t.Errorf("with the index of tickets: %v, want it to stop the second sale", err)
	}
	do(t, pool, `DROP INDEX bk.ticket_one_live`)
	if _, err := pool.Exec(ctx, sql, args); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.ticket WHERE seat_code = 'F6' AND status = 'VALID'`); n != 2 {
		t.Errorf("F6 has %d tickets, want 2: the control does not oversell", n)
	}
	if got := rulesOf(t, c); !slices.Equal(got, []string{"confirmed booking without all its seats"}) {
		t.Errorf("audit: %v", got)
	}
}

func TestControl_LocksOutOfOrderAreCountedAsDeadlocks(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	pool := wide(t, url, 2)
	var both sync.WaitGroup
	both.Add(2)
	died := make([]bool, 2)
	atOnce(2, func(i int) {
		seats := []string{"F5", "F6"}
		err := pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
			for n := range seats {
				if _, err := tx.Exec(context.Background(), `UPDATE bk.seat SET channel = channel WHERE event_id = 42 AND seat_code = $1`, seats[(n+i)%2]); err != nil {
					return err
				}
				if n == 0 {
					both.Done()
					both.Wait()
				}
			}
			return nil
		})
		var pg *pgconn.PgError
		died[i] = errors.As(err, &pg) && pg.Code == "40P01"
	})
	pool.Close()
	watch := bookingtest.Pool(t, url)
	if trues(died) != 1 {
		t.Errorf("%d transactions died, want 1", trues(died))
	}
	eventually(t, "the server counts the deadlock", func() bool {
		return one[int](t, watch, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`) == 1
	})
}

// broken are states that no statement of ours leaves behind: for each rule of the audit one that breaks it and no other.
// Each begins with a hold of A1 and A2 by ann.
var broken = map[string]func(s *broke){
	"confirmed booking without all its seats": func(s *broke) {
		s.pay()
		s.sql(`UPDATE bk.seat SET status = 'AVAILABLE', booking_id = NULL WHERE seat_code = 'A2'`)
	},
	"sold seat without a confirmed booking": func(s *broke) {
		s.sql(`UPDATE bk.seat SET status = 'SOLD', booking_id = gen_random_uuid() WHERE seat_code = 'B1'`)
	},
	"seat held by a closed booking": func(s *broke) {
		gone := s.hold("bob", "C1")
		if err := s.core.Release(context.Background(), gone.ID, "bob"); err != nil {
			s.t.Fatal(err)
		}
		s.sql(`UPDATE bk.seat SET status = 'HELD', booking_id = $1, hold_expires_at = 'infinity' WHERE seat_code = 'C1'`, gone.ID)
	},
	"seat and hold end at different times": func(s *broke) {
		s.sql(`UPDATE bk.seat SET hold_expires_at = hold_expires_at + interval '1 ms' WHERE seat_code = 'A2'`)
	},
	"live hold with missing seats": func(s *broke) {
		s.sql(`UPDATE bk.seat SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL WHERE seat_code = 'A2'`)
	},
	"hold long dead": func(s *broke) { s.clock.forward(11*time.Minute + time.Millisecond) },
	"tickets do not match the booking": func(s *broke) {
		s.pay()
		s.sql(`UPDATE bk.ticket SET status = 'VOID' WHERE seat_code = 'A2'`)
	},
	"confirmed booking without exactly one counted payment": func(s *broke) {
		s.pay()
		s.sql(`UPDATE bk.payment SET status = 'DECLINED'`)
	},
	"counted payment of another amount": func(s *broke) {
		s.pay()
		s.sql(`UPDATE bk.payment SET captured_minor = captured_minor - 1`)
	},
	"money taken, booking not confirmed, no refund": func(s *broke) {
		checkout(s.t, s.core, s.first, "k")
		s.sql(`UPDATE bk.payment SET status = 'SUCCEEDED', captured_minor = amount_minor`)
	},
	"refunds do not add up to the money taken": func(s *broke) {
		s.late()
		s.sql(`UPDATE bk.refund SET amount_minor = amount_minor - 1`)
	},
	"payment pending past reconciliation": func(s *broke) {
		checkout(s.t, s.core, s.first, "k")
		s.clock.forward(90*time.Minute + time.Millisecond)
		if err := s.core.Sweep(context.Background()); err != nil {
			s.t.Fatal(err)
		}
	},
	"refund not done": func(s *broke) {
		s.late()
		s.sql(`UPDATE bk.refund SET status = 'FAILED'`)
	},
}

// broke is a sale that is about to be broken.
type broke struct {
	t     *testing.T
	core  *booking.Core
	clock *clockOf
	pool  *pgxpool.Pool
	first booking.Booking
}

func (s *broke) sql(sql string, args ...any) {
	s.t.Helper()
	do(s.t, s.pool, sql, args...)
}

func (s *broke) hold(customer string, seats ...string) booking.Booking {
	s.t.Helper()
	return mustHold(s.t, s.core, holdOf(customer, seats...))
}

// pay confirms the first hold.
func (s *broke) pay() {
	s.t.Helper()
	wantTold(s.t, s.core, paidWord(checkout(s.t, s.core, s.first, "k"), "e"), booking.OutcomeConfirmed)
}

// late pays for the first hold when it is over.
func (s *broke) late() {
	s.t.Helper()
	co := checkout(s.t, s.core, s.first, "k")
	s.clock.forward(10 * time.Minute)
	wantTold(s.t, s.core, paidWord(co, "e"), booking.OutcomeLate)
}

func TestAudit_FindsEachBrokenRuleAndNoOther(t *testing.T) {
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^SELECT '([^']+)'`).FindAllStringSubmatch(statement(t, "audit"), -1) {
		rules[m[1]] = true
	}
	if known := slices.Sorted(maps.Keys(broken)); !slices.Equal(slices.Sorted(maps.Keys(rules)), known) {
		t.Errorf("the audit's rules are %q, those that are broken here %q", slices.Sorted(maps.Keys(rules)), known)
	}
	s := newBroke(t)
	for rule, breaks := range broken {
		t.Run(rule, func(t *testing.T) {
			s.anew(t)
			breaks(s)
			if got := rulesOf(t, s.core); !slices.Equal(got, []string{rule}) {
				t.Errorf("audit: %q, want %q", got, rule)
			}
		})
	}
}

func newBroke(t *testing.T) *broke {
	t.Helper()
	c, _, k, url := shop(t, bookingtest.Sale{})
	return &broke{core: c, clock: k, pool: bookingtest.Pool(t, url)}
}

// anew mends everything.
func (s *broke) anew(t *testing.T) {
	t.Helper()
	s.t = t
	s.sql(`TRUNCATE bk.booking, bk.payment, bk.refund, bk.inbox, bk.ticket, bk.outbox`)
	s.sql(`DELETE FROM bk.seat WHERE event_id <> 42`)
	s.sql(`DELETE FROM bk.event WHERE event_id <> 42`)
	s.sql(`UPDATE bk.seat SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL`)
	s.first = s.hold("ann", "A1", "A2")
	clean(t, s.core)
}

func TestAudit_FindsTheOtherFacesOfARule(t *testing.T) {
	s := newBroke(t)
	const other = `INSERT INTO bk.event SELECT 43, kind, map_id, name, starts_at, venue_tz, currency, status FROM bk.event WHERE event_id = 42`
	for name, row := range map[string]struct {
		breaks func(s *broke)
		rules  []string
	}{
		"a sold seat that its booking does not name": {func(s *broke) {
			s.pay()
			s.sql(`UPDATE bk.seat SET status = 'SOLD', booking_id = $1 WHERE seat_code = 'B1'`, s.first.ID)
		}, []string{"sold seat without a confirmed booking"}},
		"a sold seat of a booking of another event": {func(s *broke) {
			s.pay()
			s.sql(other)
			s.sql(`INSERT INTO bk.seat (event_id, seat_code, status, booking_id) VALUES (43, 'A1', 'SOLD', $1)`, s.first.ID)
		}, []string{"sold seat without a confirmed booking"}},
		"a held seat of no booking": {func(s *broke) {
			s.sql(`UPDATE bk.seat SET status = 'HELD', booking_id = gen_random_uuid(), hold_expires_at = 'infinity' WHERE seat_code = 'B1'`)
		}, []string{"seat held by a closed booking"}},
		"a live hold's seat that was sold": {func(s *broke) {
			s.sql(`UPDATE bk.seat SET status = 'SOLD', hold_expires_at = NULL WHERE seat_code = 'A1'`)
		}, []string{"live hold with missing seats", "sold seat without a confirmed booking"}},
		"a ticket of a hold": {func(s *broke) {
			s.sql(`INSERT INTO bk.ticket (booking_id, event_id, seat_code) VALUES ($1, 42, 'A1')`, s.first.ID)
		}, []string{"tickets do not match the booking"}},
		"a ticket too many": {func(s *broke) {
			s.pay()
			s.sql(`INSERT INTO bk.ticket (booking_id, event_id, seat_code) VALUES ($1, 42, 'B1')`, s.first.ID)
		}, []string{"tickets do not match the booking"}},
		"money kept without a refund": {func(s *broke) {
			s.late()
			s.sql(`DELETE FROM bk.refund`)
		}, []string{"money taken, booking not confirmed, no refund", "refunds do not add up to the money taken"}},
		"a refund of money that counts": {func(s *broke) {
			s.pay()
			s.sql(`INSERT INTO bk.refund (payment_id, reason, amount_minor) SELECT payment_id, 'x', 1 FROM bk.payment`)
		}, []string{"refunds do not add up to the money taken"}},
		"a refund given twice": {func(s *broke) {
			s.late()
			s.sql(`INSERT INTO bk.refund (payment_id, reason, amount_minor) SELECT payment_id, 'x', amount_minor FROM bk.refund`)
		}, []string{"refunds do not add up to the money taken"}},
		"a refund that never got through": {func(s *broke) {
			s.late()
			s.sql(`UPDATE bk.refund SET created_at = $1::timestamptz - interval '25 h'`, s.clock.Now())
		}, []string{"refund not done"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.anew(t)
			row.breaks(s)
			if got := rulesOf(t, s.core); !slices.Equal(got, row.rules) {
				t.Errorf("audit: %q, want %q", got, row.rules)
			}
		})
	}
}

func TestAudit_NamesWhatIsBroken(t *testing.T) {
	s := newBroke(t)
	s.anew(t)
	s.sql(`UPDATE bk.seat SET status = 'SOLD', booking_id = gen_random_uuid() WHERE seat_code IN ('B1', 'B2')`)
	found, err := s.core.Audit(context.Background())
	if err != nil || len(found) != 2 || fmt.Sprint(found[0].What, " ", found[1].What) != "42/B1 42/B2" {
		t.Errorf("found %+v, %v", found, err)
	}
}
