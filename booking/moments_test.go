package booking_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/payment"
)

// waitsForALock waits until a statement that contains text waits for a row lock.
func waitsForALock(t testing.TB, url, text string) {
	t.Helper()
	pool := bookingtest.Pool(t, url)
	eventually(t, "a statement waits", func() bool {
		return one[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%' || $1 || '%')`, text)
	})
}

// settle.go paid/holdAgain + sql/paid.sql.
func TestMoment_TwoWordsOfOneLatePaymentAtTheEndOfAHoldLoseNoMoney(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Late: "reacquire"})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	early, lateClock, p := newClock(), newClock(), newFakeProvider()
	lateClock.now = early.now
	c := bookingtest.Core(t, url, booking.Config{Now: early.Now, Providers: []payment.Provider{p}})
	b := mustHold(t, c, holdOf("ann", "F5"))
	co := checkout(t, c, b, "k")
	early.forward(10*time.Minute - time.Millisecond)

	// What the other node's holdAgain does one millisecond later, up to before its commit.
	end := b.ExpiresAt
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, sql := range []string{`SELECT FROM bk.payment WHERE payment_id = $1 FOR NO KEY UPDATE`} {
		if _, err := tx.Exec(ctx, sql, co.PaymentID); err != nil {
			t.Fatal(err)
		}
	}
	a := rawHold{customer: "ann", seats: []string{"F5"}, now: &end}.ask(t, tx)
	if a.outcome != "held" {
		t.Fatal(a.outcome)
	}
	if _, err := tx.Exec(ctx, `UPDATE bk.payment SET booking_id = $2 WHERE payment_id = $1`, co.PaymentID, *a.hold); err != nil {
		t.Fatal(err)
	}
	got := make(chan booking.Outcome, 1)
	go func() {
		o, err := tell(t, c, paidWord(co, "e1"))
		if err != nil {
			t.Error(err)
		}
		got <- o
	}()
	waitsForALock(t, url, "bk.inbox")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	o := <-got
	early.forward(time.Second)
	if n, _ := refunds(t, pool, co.PaymentID); o != booking.OutcomeConfirmed && n != 1 {
		t.Errorf("outcome %s, payment %s, %d refunds: the money is lost", o, one[string](t, pool, `SELECT status FROM bk.payment`), n)
	}
	clean(t, c)
}

// a release that waits for a payment answers as if it had released.
func TestMoment_AReleaseThatWaitsForAPaymentSaysThatItIsSold(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	for name, give := range map[string]func(uuid.UUID) error{
		"release": func(id uuid.UUID) error { return c.Release(ctx, id, "ann") },
		"cancel": func(id uuid.UUID) error {
			b, err := c.Cancel(ctx, id, "ann")
			if err == nil && b.Status != booking.Cancelled {
				return errors.New("cancelled without an error, and is " + string(b.Status))
			}
			return err
		},
	} {
		b := mustHold(t, c, holdOf("ann", map[string]string{"release": "F5", "cancel": "F6"}[name]))
		co := checkout(t, c, b, "k")
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(ctx, statement(t, "paid"), pgx.NamedArgs{"provider": "fake", "event": name, "ref": co.PaymentID.String(), "amount": co.Amount.Amount, "currency": "VND", "charge": "", "now": k.Now()})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- give(b.ID) }()
		waitsForALock(t, url, "release:")
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-got; name == "release" && !errors.Is(err, booking.ErrConfirmed) || name == "cancel" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// of two cancels at once one is refused.
func TestMoment_OfTwoCancelsAtOnceBothAreAnsweredAlike(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5"))
	wantTold(t, c, paidWord(checkout(t, c, b, "k"), "e"), booking.OutcomeConfirmed)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, statement(t, "cancel"), pgx.NamedArgs{"booking": b.ID, "customers": []string{"ann"}, "now": k.Now()}); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { _, err := c.Cancel(ctx, b.ID, "ann"); got <- err }()
	waitsForALock(t, url, "cancel:")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the second cancel: %v", err)
	}
}

// of two checkouts with one key at once one is told that the hold is expiring.
func TestMoment_OfTwoCheckoutsAtOnceWithOneKeyBothOpenThePage(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5"))
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hash := one[[]byte](t, pool, `SELECT sha256('')`)
	_, err = tx.Exec(ctx, statement(t, "checkout"), pgx.NamedArgs{"hold": b.ID, "customer": "ann", "payment": uuid.Must(uuid.NewV7()), "provider": "fake", "key": "k", "hash": hash, "reconcile": time.Minute, "now": k.Now()})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Checkout(ctx, booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k"})
		got <- err
	}()
	waitsForALock(t, url, "checkout:")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the second checkout: %v", err)
	}
}

// a free hold whose process died between its payment and its settling.
func TestMoment_AFreeHoldWhoseCheckoutWasCutShort(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{Price: -1})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	cut := func(customer, seat string) booking.CheckoutRequest {
		b := mustHold(t, c, holdOf(customer, seat))
		hash := one[[]byte](t, pool, `SELECT sha256('')`)
		do(t, pool, statement(t, "checkout"), pgx.NamedArgs{"hold": b.ID, "customer": customer, "payment": uuid.Must(uuid.NewV7()), "provider": "none", "key": "k", "hash": hash, "reconcile": time.Minute, "now": k.Now()})
		return booking.CheckoutRequest{Admission: booking.Admission{Customer: customer}, Hold: b.ID, Key: "k"}
	}
	again := cut("ann", "F5")
	cut("bob", "F6") // and never asks again
	k.forward(11 * time.Minute)
	for i := range 2 {
		if _, err := c.Checkout(ctx, again); !errors.Is(err, booking.ErrHoldGone) {
			t.Errorf("5a: checkout %d of a dead free hold: %v, want %v", i, err, booking.ErrHoldGone)
		}
	}
	k.forward(2 * time.Hour)
	if err := errors.Join(c.Sweep(ctx), c.Reconcile(ctx)); err != nil {
		t.Errorf("5b: reconcile: %v", err)
	}
	clean(t, c) // 5b: payment pending past reconciliation, for ever
}

// a repeated checkout opens a page for a hold that is over; nobody closes it.
func TestMoment_ARepeatedCheckoutOpensNoPageForADeadHold(t *testing.T) {
	c, p, k, _ := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "F5"))
	r := booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k"}
	p.broken = errors.New("provider away")
	if _, err := c.Checkout(context.Background(), r); !errors.Is(err, booking.ErrProvider) {
		t.Fatal(err)
	}
	p.broken = nil
	clear(p.started)
	k.forward(11 * time.Minute)
	if co, err := c.Checkout(context.Background(), r); err == nil {
		t.Errorf("a page %s to pay by %s was opened at %s for a hold that ended at %s", co.URL, co.PayBy, k.Now(), b.ExpiresAt)
	}
}

// a customer or key that the schema refuses is told as an error of ours and counted as a broken rule.
func TestMoment_AKeyThatIsTooLongIsInvalid(t *testing.T) {
	c, _, _, _ := shop(t, bookingtest.Sale{})
	r := holdOf("ann", "A1")
	r.Key = "12345678901234567890123456789012345678901234567890123456789012345"
	if _, _, err := c.Hold(context.Background(), r); !errors.As(err, new(*booking.InvalidError)) {
		t.Errorf("a key of 65 bytes: %v", err)
	}
	r = holdOf("ann\x00", "A1")
	if _, _, err := c.Hold(context.Background(), r); !errors.As(err, new(*booking.InvalidError)) {
		t.Errorf("a customer with a zero byte: %v", err)
	}
}

// the cap at the end of a hold (two moments of one clock).
func TestMoment_TheCapHoldsAtTheEndOfAHold(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Cap: 2})
	p, early, late := newFakeProvider(), newClock(), newClock()
	late.now = early.now
	a := bookingtest.Core(t, url, booking.Config{Now: early.Now, Providers: []payment.Provider{p}})
	b := bookingtest.Core(t, url, booking.Config{Now: late.Now, Providers: []payment.Provider{p}})
	first := mustHold(t, a, holdOf("ann", "A1", "A2"))
	co := checkout(t, a, first, "k")
	early.forward(10*time.Minute - time.Millisecond)
	late.forward(10 * time.Minute)
	var limit *booking.LimitError
	if _, _, err := b.Hold(context.Background(), holdOf("ann", "B1", "B2")); !errors.As(err, &limit) {
		t.Errorf("a second hold while the first may still be paid: %v", err)
	}
	if o, err := tell(t, a, paidWord(co, "e")); err != nil || o != booking.OutcomeConfirmed {
		t.Errorf("paid in the last millisecond: %s, %v", o, err)
	}
	if n := one[int](t, bookingtest.Pool(t, url), `SELECT sum(quantity)::int FROM bk.booking WHERE status = 'CONFIRMED'`); n > 2 {
		t.Errorf("ann has bought %d seats under a cap of 2", n)
	}
}

// the table in front of holds refuses a retry of what succeeded.
func TestMoment_ARetryIsTheSameHoldWhateverTheTableOfTheOtherNodeSays(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	cores, ctx := nodes(t, url, 2, booking.Config{Feed: true}), context.Background()
	for _, c := range cores {
		running(t, c)
		eventually(t, "the table is trusted", func() bool { _, _ = c.SeatMap(ctx, 42, false); return c.Trusts(42) })
	}
	for i := range 10 {
		seat := bookingtest.Seat(i, 0)
		bob := mustHold(t, cores[0], holdOf("bob", seat))
		eventually(t, "the other node knows", func() bool {
			_, _, err := cores[1].Hold(ctx, holdOf("eve", seat))
			return err != nil
		})
		time.Sleep(300 * time.Millisecond) // node 1's table has bob's hold
		if err := cores[0].Release(ctx, bob.ID, "bob"); err != nil {
			t.Fatal(err)
		}
		r := holdOf("ann", seat)
		r.Key = "k" + seat
		b := mustHold(t, cores[0], r)
		got, replayed, err := cores[1].Hold(ctx, r) // the answer was lost: the client asks again, by the other node
		if err != nil || !replayed || got.ID != b.ID {
			t.Errorf("11a %s: %v, replayed %t", seat, err, replayed)
		}
		if err := cores[0].Release(ctx, b.ID, "ann"); err != nil {
			t.Fatal(err)
		}
		mustHold(t, cores[0], holdOf("eve", seat))
		if _, replayed, err := cores[0].Hold(ctx, r); err != nil || !replayed {
			t.Errorf("11b %s: %v, replayed %t", seat, err, replayed)
		}
	}
}

// A caller who leaves before the answer takes no seat along: without a key nobody could come back for it.
func TestMoment_OfAHoldWhoseCallerHasLeftIsGivenBack(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	c := bookingtest.Core(t, url, booking.Config{})
	mustHold(t, c, holdOf("first", "J10")) // connects, plans
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), `LOCK TABLE bk.booking IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if _, _, err := c.Hold(ctx, holdOf("gone", bookingtest.Seat(0, i%10))); err == nil {
			t.Error("held although the table was locked")
		}
		cancel()
	}
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustHold(t, c, holdOf("next", "B1")) // what waited before it is decided by now
	eventually(t, "no seat is held for nobody", func() bool {
		return one[int](t, pool, `SELECT count(*) FROM bk.seat s JOIN bk.booking b USING (booking_id) WHERE s.status = 'HELD' AND b.customer = 'gone'`) == 0
	})
	clean(t, c)
}

// One locked seat keeps its own booking from being swept, and no other.
func TestMoment_OfASweepPassesOverALockedSeat(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	for _, seat := range []string{"A1", "A2", "A3"} {
		mustHold(t, c, holdOf("ann", seat))
	}
	k.forward(10 * time.Minute)
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(context.Background(), `SELECT FROM bk.seat WHERE seat_code = 'A2' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if err := c.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.booking WHERE status = 'EXPIRED'`); n != 2 {
		t.Errorf("%d bookings were swept, want the two without the locked seat", n)
	}
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := c.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	clean(t, c)
}
