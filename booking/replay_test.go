package booking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/gate"
	"ropeline/booking/payment"
	"ropeline/internal/redisbox/redistest"
)

// These tests replay, on ours, bugs that other booking systems had. Each says where the bug was told.

// statement is one of the statements of booking/sql, for tests that run it step by step.
func statement(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("sql/" + name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// events counts the events of a type about a booking that wait in the outbox. No relay runs.
func events(t testing.TB, pool *pgxpool.Pool, kind string, booking uuid.UUID) int {
	t.Helper()
	return one[int](t, pool, `SELECT count(*) FROM bk.outbox WHERE type = $1 AND aggregateid = $2::text`, kind, booking)
}

// seatStatus is the status of a seat of event 42, as it is stored.
func seatStatus(t testing.TB, pool *pgxpool.Pool, seat string) string {
	t.Helper()
	return one[string](t, pool, `SELECT status FROM bk.seat WHERE event_id = 42 AND seat_code = $1`, seat)
}

// refunds are the refunds of a payment, with their amounts in all.
func refunds(t testing.TB, pool *pgxpool.Pool, payment uuid.UUID) (n int, amount int64) {
	t.Helper()
	err := pool.QueryRow(context.Background(), `SELECT count(*), coalesce(sum(amount_minor), 0)::bigint FROM bk.refund WHERE payment_id = $1`, payment).Scan(&n, &amount)
	if err != nil {
		t.Fatal(err)
	}
	return n, amount
}

// wantTold delivers an event and holds the outcome against want.
func wantTold(t testing.TB, c *booking.Core, ev payment.Event, want booking.Outcome) {
	t.Helper()
	if o, err := tell(t, c, ev); err != nil || o != want {
		t.Errorf("callback %s: %s, %v, want %s", ev.ID, o, err, want)
	}
}

// wantStatus reads a booking as its customer and holds its status against want.
func wantStatus(t testing.TB, c *booking.Core, b booking.Booking, want booking.Status) booking.Booking {
	t.Helper()
	got, err := c.Booking(context.Background(), b.ID, b.Customer)
	if err != nil || got.Status != want {
		t.Errorf("booking of %s: %s, %v, want %s", b.Customer, got.Status, err, want)
	}
	return got
}

// https://github.com/fossasia/eventyay/issues/1359: the lock was left out "for speed" where the cart was young.
func TestReplay_TheLastUnitIsSoldOnceHoweverOldTheCarts(t *testing.T) {
	_, _, k, url := shop(t, bookingtest.Sale{Rows: 1, PerRow: 1})
	pool, p := bookingtest.Pool(t, url), newFakeProvider()
	cores := nodes(t, url, 2, booking.Config{Now: k.Now, Providers: []payment.Provider{p}})
	for _, c := range cores {
		if _, err := c.Event(context.Background(), 42); err != nil {
			t.Fatal(err)
		}
	}
	k.forward(2*time.Minute + time.Second)
	taken := make([]bool, 2)
	atOnce(2, func(i int) {
		b, _, err := cores[i].Hold(context.Background(), holdOf(fmt.Sprint("c", i), "A1"))
		if err != nil {
			taken[i] = errors.As(err, new(*booking.TakenError))
			return
		}
		co, err := cores[i].Checkout(context.Background(), booking.CheckoutRequest{Admission: booking.Admission{Customer: b.Customer}, Hold: b.ID, Key: "k"})
		if err != nil {
			t.Error(err)
			return
		}
		wantTold(t, cores[1-i], paidWord(co, "e"), booking.OutcomeConfirmed)
	})
	if trues(taken) != 1 {
		t.Errorf("%d of 2 were told that it is taken, want 1", trues(taken))
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.seat WHERE status = 'SOLD'`); n != 1 {
		t.Errorf("%d seats sold, want 1", n)
	}
	clean(t, cores[0])
}

// https://github.com/vendurehq/vendure/issues/3508: a paid order ended with less than was ordered, silently.
func TestReplay_APaidBookingNeverHasFewerSeatsThanWereHeld(t *testing.T) {
	c, p, k, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5", "F6"))
	co := checkout(t, c, b, "k")
	k.forward(10 * time.Minute)
	mustHold(t, c, holdOf("bob", "F6"))
	wantTold(t, c, paidWord(co, "e"), booking.OutcomeLate)
	wantStatus(t, c, b, booking.Failed)
	if n, amount := refunds(t, pool, co.PaymentID); n != 1 || amount != 600_000 {
		t.Errorf("%d refunds of %d, want 1 of 600000", n, amount)
	}
	if five, six := seatStatus(t, pool, "F5"), seatStatus(t, pool, "F6"); five != "AVAILABLE" || six != "HELD" {
		t.Errorf("F5 is %s and F6 is %s, want AVAILABLE and HELD", five, six)
	}
	if err := c.SendRefunds(context.Background()); err != nil || p.total() != 600_000 {
		t.Errorf("%v, money back %d", err, p.total())
	}
	clean(t, c)
}

// https://github.com/medusajs/medusa/issues/16502: two lines for one item were each checked against the full stock.
func TestReplay_TheSameSeatTwiceInOneRequestIsInvalid(t *testing.T) {
	c, _, _, url := shop(t, bookingtest.Sale{})
	for _, r := range []booking.HoldRequest{
		holdOf("ann", "F5", "F5"),
		{Admission: booking.Admission{Customer: "ann"}, Event: 42, Choices: []booking.Choice{{Seat: "F5"}, {Seat: "F6"}, {Seat: "F5", TicketType: "child"}}},
	} {
		if _, _, err := c.Hold(context.Background(), r); !errors.As(err, new(*booking.InvalidError)) {
			t.Errorf("%v: %v, want an InvalidError", r.Choices, err)
		}
	}
	pool := bookingtest.Pool(t, url)
	if a := (rawHold{customer: "ann", seats: []string{"F5", "F5"}}).ask(t, pool); a.outcome == "held" {
		t.Error("hold_seats held one seat as two")
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.booking`); n != 0 {
		t.Errorf("%d bookings, want none", n)
	}
}

// https://github.com/medusajs/medusa/issues/16825: who lost a race left an order without a reservation behind.
func TestReplay_WhoLosesARaceLeavesNoBooking(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	cores := nodes(t, url, 2, booking.Config{})
	atOnce(20, func(i int) {
		r := holdOf(fmt.Sprint("c", i), "F5")
		r.Key = "k"
		_, _, err := cores[i%2].Hold(context.Background(), r)
		if err != nil && !errors.As(err, new(*booking.TakenError)) {
			t.Error(err)
		}
	})
	if n := one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.booking`); n != 1 {
		t.Errorf("%d bookings of 20 customers, want 1", n)
	}
}

// https://github.com/verbb/events/issues/129 and https://github.com/fossasia/open-event-server/issues/3346: limits were checked
// by line, not by basket.
func TestReplay_TwoBasketsAtOnceShareOneCap(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Cap: 4})
	cores := nodes(t, url, 2, booking.Config{})
	for row := range 5 {
		won := make([]bool, 2)
		customer := fmt.Sprint("c", row)
		atOnce(2, func(i int) {
			_, _, err := cores[i].Hold(context.Background(), holdOf(customer, bookingtest.Seat(row, 3*i), bookingtest.Seat(row, 3*i+1), bookingtest.Seat(row, 3*i+2)))
			won[i] = err == nil
			if err != nil && !errors.As(err, new(*booking.LimitError)) {
				t.Error(err)
			}
		})
		if trues(won) != 1 {
			t.Errorf("%d holds of 3 under a cap of 4, want 1", trues(won))
		}
	}
	clean(t, cores[0])
}

// https://github.com/hoangdaochuz/booking/issues/27: the lock's key contained the customer, so two of them never met.
func TestReplay_TheGateHasTwoCustomersMeetAndDoesNotKnowTheirNames(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Gate: true, PerMinute: 100})
	rdb := redistest.Embedded(t)
	g := gate.New(rdb, gate.Config{Timeout: 20 * time.Second})
	cores := nodes(t, url, 2, booking.Config{Gate: g, Limits: g})
	won := make([]bool, 2)
	var hold booking.Booking
	atOnce(2, func(i int) {
		b, _, err := cores[i].Hold(context.Background(), holdOf(fmt.Sprint("customer-", i), "F5"))
		if won[i] = err == nil; won[i] {
			hold = b
		} else if !errors.As(err, new(*booking.TakenError)) {
			t.Error(err)
		}
	})
	if trues(won) != 1 {
		t.Fatalf("%d winners, want 1", trues(won))
	}
	keys, err := rdb.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	marks := 0
	for _, key := range keys {
		if strings.Contains(key, "customer-") {
			t.Errorf("key %s names the customer", key)
		}
		if strings.HasPrefix(key, "seat:") {
			marks++
			if holder := rdb.Get(context.Background(), key).Val(); holder != hold.ID.String() {
				t.Errorf("%s is marked as %s's, want %s's", key, holder, hold.ID)
			}
		}
	}
	if marks != 1 {
		t.Errorf("%d marks among %v, want 1", marks, keys)
	}
}

// https://github.com/ingadhoc/sale/pull/1838: the box office wrote past the guard. Each way to write meets one here: with one
// seat left nobody gets four.
func TestReplay_NoWayToWriteSellsFourWhereOneIsLeft(t *testing.T) {
	c, p, k, url := shop(t, bookingtest.Sale{Rows: 1, PerRow: 4, Late: "reacquire"})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	all := []string{"A1", "A2", "A3", "A4"}
	late := mustHold(t, c, holdOf("late", all...))
	lateCheckout := checkout(t, c, late, "k")
	k.forward(10 * time.Minute)
	sold := mustHold(t, c, holdOf("ann", "A1", "A2", "A3"))
	wantTold(t, c, paidWord(checkout(t, c, sold, "k"), "e1"), booking.OutcomeConfirmed)
	last := mustHold(t, c, holdOf("eve", "A4"))

	swap := holdOf("eve", all...)
	swap.Replaces = last.ID
	for name, r := range map[string]booking.HoldRequest{"hold": holdOf("bob", all...), "swap": swap} {
		if _, _, err := c.Hold(ctx, r); !errors.As(err, new(*booking.TakenError)) {
			t.Errorf("%s: %v, want a TakenError", name, err)
		}
	}
	if err := c.Release(ctx, last.ID, "eve"); err != nil {
		t.Fatal(err)
	}
	now := k.Now()
	if a := (rawHold{customer: "bob", seats: all, now: &now}).ask(t, pool); a.outcome != "taken" {
		t.Errorf("hold_seats: %s", a.outcome)
	}
	atOnce(40, func(i int) {
		if _, _, err := c.Hold(ctx, holdOf(fmt.Sprint("c", i), all...)); !errors.As(err, new(*booking.TakenError)) {
			t.Errorf("one of a crowd: %v, want a TakenError", err)
		}
	})
	wantTold(t, c, paidWord(lateCheckout, "e2"), booking.OutcomeLate) // would take them again if they were free
	wantStatus(t, c, late, booking.Failed)

	for name, sql := range map[string]string{
		"a sale without a booking": `UPDATE bk.seat SET status = 'SOLD' WHERE event_id = 42 AND seat_code = 'A4'`,
		"a hold without an end":    `UPDATE bk.seat SET status = 'HELD', booking_id = gen_random_uuid() WHERE event_id = 42 AND seat_code = 'A4'`,
		"a second seat A1":         `INSERT INTO bk.seat (event_id, seat_code) VALUES (42, 'A1')`,
		"a second ticket for A1":   `INSERT INTO bk.ticket (booking_id, event_id, seat_code) VALUES (gen_random_uuid(), 42, 'A1')`,
		"a booking of 4 with 1":    `UPDATE bk.booking SET items = '{A4}' WHERE customer = 'late'`,
		"a dead booking sold":      `UPDATE bk.booking SET status = 'CONFIRMED' WHERE customer = 'late'`,
	} {
		var refused *pgconn.PgError
		if _, err := pool.Exec(ctx, sql); !errors.As(err, &refused) || !strings.HasPrefix(refused.Code, "23") {
			t.Errorf("%s: %v, want a constraint to refuse it", name, err)
		}
	}
	if err := c.SendRefunds(ctx); err != nil || p.total() != 1_200_000 {
		t.Errorf("%v, money back %d, want that of the late four", err, p.total())
	}
	clean(t, c)
}

// https://github.com/eventespresso/event-espresso-core/issues/218: abandoned carts kept their reservations for ever.
func TestReplay_AbandonedHoldsEndWithoutASweeper(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{Rows: 2, PerRow: 8})
	seats := bookingtest.Sale{Rows: 2, PerRow: 8}.Seats()
	mustHold(t, c, holdOf("ann", seats[:8]...))
	mustHold(t, c, holdOf("ann", seats[8:]...))
	k.forward(10 * time.Minute)
	for i, seat := range seats {
		mustHold(t, c, holdOf(fmt.Sprint("c", i), seat))
	}
	if n := one[int](t, bookingtest.Pool(t, url), `SELECT count(DISTINCT booking_id) FROM bk.seat WHERE status = 'HELD'`); n != len(seats) {
		t.Errorf("%d holds, want %d", n, len(seats))
	}
	clean(t, c)
}

// https://github.com/alfio-event/alf.io/issues/144: what was pending counted as available.
func TestReplay_AHeldSeatIsShownAsHeldOnEveryNode(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	cores := nodes(t, url, 3, booking.Config{Feed: true})
	running(t, cores[0])
	running(t, cores[1]) // the third hears of nothing, and reads for itself
	mustHold(t, cores[0], holdOf("ann", "F5"))
	for i, c := range cores {
		eventually(t, fmt.Sprintf("node %d shows F5 as held", i), func() bool {
			m, err := c.SeatMap(context.Background(), 42, false)
			if err != nil {
				t.Fatal(err)
			}
			var shown struct {
				Seats map[string]string
				Free  int
			}
			if err := json.Unmarshal(m.JSON, &shown); err != nil {
				t.Fatal(err)
			}
			return shown.Seats["F5"] == "HELD" && shown.Free == 99 && m.Held == 1
		})
	}
}

// https://github.com/microsoftarchive/cqrs-journey/issues/271: who went back and chose again was blocked by their own hold.
func TestReplay_WhoChoosesAgainIsNotInTheirOwnWay(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{Cap: 2})
	first := mustHold(t, c, holdOf("ann", "F5", "F6"))
	began := k.Now()
	for i, pair := range [][]string{{"F6", "F7"}, {"F7", "F8"}, {"F5", "F6"}} {
		k.forward(6 * time.Minute)
		r := holdOf("ann", pair...)
		r.Replaces = first.ID
		first = mustHold(t, c, r)
		if latest := began.Add(20 * time.Minute); first.ExpiresAt.After(latest) {
			t.Errorf("swap %d lasts until %s, the event allows %s", i, first.ExpiresAt, latest)
		}
	}
	if holds, seats := heldBy(t, bookingtest.Pool(t, url)); holds != 1 || seats != 2 {
		t.Errorf("%d holds of %d seats, want 1 of 2", holds, seats)
	}
	mustHold(t, c, holdOf("bob", "F7", "F8"))
	clean(t, c)
}

// https://github.com/emfcamp/Website/issues/1014: tickets stayed reserved, some before any payment was chosen.
func TestReplay_NoHoldOutlivesItsEndWhileTheSweeperRuns(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	k, pool := newClock(), bookingtest.Pool(t, url)
	c := bookingtest.Core(t, url, booking.Config{Now: k.Now, SweepEvery: 20 * time.Millisecond, Providers: []payment.Provider{newFakeProvider()}})
	for i := range 40 {
		b := mustHold(t, c, holdOf(fmt.Sprint("c", i), bookingtest.Seat(i/10, i%10)))
		if i%4 == 0 {
			checkout(t, c, b, "k")
		}
	}
	k.forward(10*time.Minute + 61*time.Second)
	if found, err := c.Audit(context.Background()); err != nil || len(found) != 40 {
		t.Errorf("audit before the sweep: %d findings, %v, want 40", len(found), err)
	}
	running(t, c)
	eventually(t, "every hold is swept", func() bool { return one[int](t, pool, `SELECT count(*) FROM bk.booking WHERE status = 'HOLD'`) == 0 })
	if n := one[int](t, pool, `SELECT count(*) FROM bk.seat WHERE status <> 'AVAILABLE'`); n != 0 {
		t.Errorf("%d seats are not free", n)
	}
	clean(t, c)
}

// https://github.com/pretix/pretix/issues/4227: "add to cart" hung until a restart.
func TestReplay_ALockThatNeverEndsDelaysOnlyThoseWhoWantThatSeat(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	c, ctx := bookingtest.Core(t, url, booking.Config{}), context.Background()
	tx, err := bookingtest.Pool(t, url).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `SELECT FROM bk.seat WHERE event_id = 42 AND seat_code = 'F5' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	stuck := make(chan error, 1)
	began := time.Now()
	go func() {
		_, _, err := c.Hold(ctx, holdOf("ann", "F5", "F6"))
		stuck <- err
	}()
	others := 0
	for err = error(nil); others < 99 && err == nil; others++ {
		if seat := bookingtest.Seat(others/10, others%10); seat != "F5" && seat != "F6" {
			mustHold(t, c, holdOf(fmt.Sprint("c", others), seat))
		}
		select {
		case err = <-stuck:
		default:
		}
	}
	if err == nil {
		err = <-stuck
	}
	if took := time.Since(began); !errors.Is(err, booking.ErrBusy) || took > 10*time.Second {
		t.Errorf("hold of the locked seat: %v after %s, want %v within 10 s", err, took, booking.ErrBusy)
	}
	if others < 20 {
		t.Errorf("%d other seats were held meanwhile, want many", others)
	}
	_ = tx.Rollback(ctx)
	mustHold(t, c, holdOf("ann", "F5", "F6"))
	clean(t, c)
}

// https://github.com/pretix/pretix/issues/74: the payment succeeded after the quota was gone; the money was kept.
func TestReplay_MoneyForSeatsThatAreGoneGoesBackInTheSameCommit(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5", "F6"))
	co := checkout(t, c, b, "k")
	k.forward(10 * time.Minute)
	bob := mustHold(t, c, holdOf("bob", "F5", "F6"))
	k.forward(time.Second)
	wantTold(t, c, paidWord(co, "e"), booking.OutcomeLate)
	got := wantStatus(t, c, b, booking.Failed)
	if len(got.Payments) != 1 || got.Payments[0].Status != "REFUND_DUE" || len(got.Payments[0].Refunds) != 1 {
		t.Errorf("payments %+v, want one that is due for one refund", got.Payments)
	}
	if failed, requested := events(t, pool, "BookingFailed", b.ID), events(t, pool, "RefundRequested", b.ID); failed != 1 || requested != 1 {
		t.Errorf("%d BookingFailed, %d RefundRequested, want 1 and 1", failed, requested)
	}
	sameCommit(t, pool, co.PaymentID)
	wantStatus(t, c, bob, booking.Held)
	clean(t, c)
}

// sameCommit fails the test unless a payment, its booking and its refund were last written by one transaction.
func sameCommit(t testing.TB, pool *pgxpool.Pool, payment uuid.UUID) {
	t.Helper()
	n := one[int](t, pool, `
SELECT count(DISTINCT x) FROM (
  SELECT xmin::text AS x FROM bk.payment WHERE payment_id = $1
  UNION ALL SELECT xmin::text FROM bk.refund WHERE payment_id = $1
  UNION ALL SELECT b.xmin::text FROM bk.booking b JOIN bk.payment p USING (booking_id) WHERE p.payment_id = $1) w`, payment)
	if n != 1 {
		t.Errorf("payment, booking and refund were written by %d transactions, want 1", n)
	}
}

// https://github.com/saleor/saleor/issues/14733 and /10925, https://github.com/saleor/saleor/pull/9504: paid orders that came
// about after all while their refund ran, or never and without a refund.
func TestReplay_AFailedBookingStaysFailed(t *testing.T) {
	c, p, k, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5"))
	co, second := checkout(t, c, b, "k1"), checkout(t, c, b, "k2")
	k.forward(10 * time.Minute)
	if err := c.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, c, b, booking.Expired)
	wantTold(t, c, paidWord(co, "e1"), booking.OutcomeLate)
	sameCommit(t, pool, co.PaymentID)
	wantTold(t, c, paidWord(co, "e2"), booking.OutcomeDuplicate)
	wantTold(t, c, paidWord(second, "e3"), booking.OutcomeLate) // the seat is free; it stays so
	wantStatus(t, c, b, booking.Failed)
	if s := seatStatus(t, pool, "F5"); s != "AVAILABLE" {
		t.Errorf("F5 is %s", s)
	}
	if err := c.SendRefunds(context.Background()); err != nil || p.total() != 600_000 || len(p.refunds) != 2 {
		t.Errorf("%v, %d back by %d refunds, want 600000 by 2", err, p.total(), len(p.refunds))
	}
	wantStatus(t, c, b, booking.Failed)
	clean(t, c)
}

// https://github.com/woocommerce/woocommerce-gateway-stripe/issues/489 and /2536: the return page and the webhook ran at once,
// under different keys.
func TestReplay_CallbackReturnPageAndReconciliationAtOnceConfirmOnce(t *testing.T) {
	const rounds, each = 5, 40
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Rows: rounds, PerRow: each})
	k, p, pool := newClock(), newFakeProvider(), bookingtest.Pool(t, url)
	cores := nodes(t, url, 2, booking.Config{Now: k.Now, Providers: []payment.Provider{p}})
	for round := range rounds {
		var held []booking.Booking
		var asked []booking.Checkout
		for i := range each {
			b := mustHold(t, cores[0], holdOf(fmt.Sprint("c", round, "-", i), bookingtest.Seat(round, i)))
			co := checkout(t, cores[0], b, "k")
			held, asked = append(held, b), append(asked, co)
			p.mu.Lock()
			p.becomes[co.PaymentID] = paidWord(co, "")
			p.mu.Unlock()
		}
		k.forward(9*time.Minute + time.Second) // reconciliation asks; the holds are alive
		var mu sync.Mutex
		confirmed := 0
		note := func(o booking.Outcome, err error) {
			mu.Lock()
			defer mu.Unlock()
			if o == booking.OutcomeConfirmed {
				confirmed++
			} else if err != nil || o != booking.OutcomeDuplicate {
				t.Errorf("%s, %v", o, err)
			}
		}
		atOnce(3*each, func(n int) {
			i := n / 3
			switch n % 3 {
			case 0:
				note(tell(t, cores[0], paidWord(asked[i], fmt.Sprint("e", round, "-", i))))
			case 1:
				_, o, err := cores[1].Confirm(context.Background(), held[i].ID, asked[i].PaymentID)
				note(o, err)
			case 2:
				if i%10 == 0 {
					if err := cores[i/10%2].Reconcile(context.Background()); err != nil {
						t.Errorf("reconcile: %v", err)
					}
				}
			}
		})
		if confirmed > each {
			t.Errorf("round %d: %d answers say confirmed for %d payments", round, confirmed, each)
		}
	}
	var bookings, all, tickets int
	err := pool.QueryRow(context.Background(), `
SELECT count(DISTINCT aggregateid), count(*), (SELECT count(*) FROM bk.outbox WHERE type = 'TicketsIssued') FROM bk.outbox WHERE type = 'BookingConfirmed'`).
		Scan(&bookings, &all, &tickets)
	if err != nil || bookings != rounds*each || all != bookings || tickets != all {
		t.Errorf("%d bookings confirmed by %d events, %d with tickets, %v, want %d of each", bookings, all, tickets, err, rounds*each)
	}
	clean(t, cores[0])
}

// https://github.com/medusajs/medusa/issues/16681 and https://github.com/saleor/apps/issues/2446: a retry of a refund whose
// answer was lost had a new key, and the money went back twice.
func TestReplay_ARefundWhoseAnswerIsLostIsAskedForUnderTheSameKeyByTheNextProcess(t *testing.T) {
	c, p, k, url := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "F5"))
	co := checkout(t, c, b, "k")
	k.forward(10 * time.Minute)
	wantTold(t, c, paidWord(co, "e"), booking.OutcomeLate)
	p.deaf = 2
	for try := range 3 {
		next := bookingtest.Core(t, url, booking.Config{Providers: []payment.Provider{p}, Now: k.Now})
		if err := next.SendRefunds(context.Background()); (err == nil) != (try == 2) {
			t.Errorf("try %d: %v", try, err)
		}
		again(t, next)
	}
	if err := c.SendRefunds(context.Background()); err != nil {
		t.Error(err)
	}
	if len(p.refunds) != 1 || p.total() != 300_000 {
		t.Errorf("%d keys, %d back, want 1 and 300000", len(p.refunds), p.total())
	}
	for id, tries := range p.refunds {
		if tries != 3 {
			t.Errorf("refund %s was asked for %d times, want 3", id, tries)
		}
	}
	clean(t, c)
}

// https://github.com/pretix/pretix/issues/343: one of two charges was refunded, and the refund's event cancelled the order.
func TestReplay_TheRefundOfASecondPaymentLeavesTheBookingConfirmed(t *testing.T) {
	c, p, _, _ := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "F5", "F6"))
	first, second := checkout(t, c, b, "k1"), checkout(t, c, b, "k2")
	wantTold(t, c, paidWord(first, "e1"), booking.OutcomeConfirmed)
	wantTold(t, c, paidWord(second, "e2"), booking.OutcomeLate)
	got := wantStatus(t, c, b, booking.Confirmed)
	if len(got.Payments) != 2 || got.Payments[0].Status != "SUCCEEDED" || got.Payments[1].Status != "REFUND_DUE" || len(got.Payments[1].Refunds) != 1 {
		t.Fatalf("payments %+v", got.Payments)
	}
	back := payment.Event{ID: "e3", Kind: payment.Refunded, PaymentID: second.PaymentID, RefundID: got.Payments[1].Refunds[0].ID, Amount: second.Amount.Amount}
	wantTold(t, c, back, booking.OutcomeRefunded)
	back.ID = "e4"
	wantTold(t, c, back, booking.OutcomeDuplicate)
	got = wantStatus(t, c, b, booking.Confirmed)
	if got.Payments[0].Status != "SUCCEEDED" || got.Payments[1].Status != "REFUNDED" || got.Payments[1].Refunds[0].Reason != "second_payment" {
		t.Errorf("payments %+v", got.Payments)
	}
	if err := c.SendRefunds(context.Background()); err != nil || len(p.refunds) != 0 {
		t.Errorf("%v, %d refunds were asked for that are done", err, len(p.refunds))
	}
	clean(t, c)
}

// https://github.com/alfio-event/alf.io/issues/1254: after a decline the second try failed, as the reservation's id was reused
// as the provider's key.
func TestReplay_ADeclinedCardMayBeTriedAgainAsAPaymentOfItsOwn(t *testing.T) {
	c, p, _, _ := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "F5"))
	first := checkout(t, c, b, "k1")
	wantTold(t, c, payment.Event{ID: "e1", Kind: payment.Declined, PaymentID: first.PaymentID}, booking.OutcomeDeclined)
	second := checkout(t, c, b, "k2")
	if second.PaymentID == first.PaymentID || second.Replayed || len(p.started) != 2 {
		t.Fatalf("second attempt is payment %s, first was %s, %d pages", second.PaymentID, first.PaymentID, len(p.started))
	}
	wantTold(t, c, paidWord(second, "e2"), booking.OutcomeConfirmed)
	wantStatus(t, c, b, booking.Confirmed)
	clean(t, c)
}

// https://github.com/pretix/pretix/issues/1230: the provider cancelled payments, and the customers could not try again.
func TestReplay_ACancelledPaymentLeavesTheHoldAlive(t *testing.T) {
	c, _, k, _ := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "F5"))
	for i, kind := range []payment.Kind{payment.Declined, payment.Expired} {
		co := checkout(t, c, b, fmt.Sprint("k", i))
		want := map[payment.Kind]booking.Outcome{payment.Declined: booking.OutcomeDeclined, payment.Expired: booking.OutcomeExpired}[kind]
		wantTold(t, c, payment.Event{ID: fmt.Sprint("e", i), Kind: kind, PaymentID: co.PaymentID}, want)
		wantTold(t, c, payment.Event{ID: fmt.Sprint("e", i), Kind: kind, PaymentID: co.PaymentID}, booking.OutcomeDuplicate)
		k.forward(2 * time.Minute)
	}
	got := wantStatus(t, c, b, booking.Held)
	if len(got.Payments) != 2 || got.Payments[0].Status != "DECLINED" || got.Payments[1].Status != "EXPIRED" {
		t.Errorf("payments %+v", got.Payments)
	}
	wantTold(t, c, paidWord(checkout(t, c, b, "k9"), "e9"), booking.OutcomeConfirmed)
	clean(t, c)
}

// Hi.Events, PaymentIntentSucceededHandler and IncomingWebhookHandler at commit 944433c7
// (https://github.com/HiEventsDev/hi.events): the refund was called inside the transaction, an exception made the provider
// call again, and what had been handled was remembered for an hour.
func TestReplay_LateMoneyThatIsToldOfForDaysIsRefundedOnce(t *testing.T) {
	c, p, k, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5"))
	co := checkout(t, c, b, "k")
	k.forward(10 * time.Minute)
	want := booking.OutcomeLate
	for _, wait := range []time.Duration{0, 61 * time.Minute, 72 * time.Hour} {
		k.forward(wait)
		again := bookingtest.Core(t, url, booking.Config{Providers: []payment.Provider{p}, Now: k.Now}) // remembers nothing
		wantTold(t, again, paidWord(co, "e1"), want)
		want = booking.OutcomeDuplicate
		wantTold(t, again, paidWord(co, fmt.Sprint("e-", wait)), want)
		if err := again.SendRefunds(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if n, _ := refunds(t, pool, co.PaymentID); n != 1 || len(p.refunds) != 1 || p.total() != 300_000 {
		t.Errorf("%d refunds, %d at the provider, %d back, want 1, 1, 300000", n, len(p.refunds), p.total())
	}
	clean(t, c)
}

// https://github.com/duncanmcclean/statamic-cargo/issues/190 and https://github.com/polarsource/polar/pull/10728: a webhook that
// overtook its order was answered with 200 and never came back.
func TestReplay_ACallbackThatOvertakesItsPaymentIsRefusedAndTakenLater(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "F5"))
	co := booking.Checkout{PaymentID: uuid.Must(uuid.NewV7()), Amount: b.Amount}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, statement(t, "checkout"), pgx.NamedArgs{
		"hold": b.ID, "customer": "ann", "payment": co.PaymentID, "provider": "fake", "key": "k", "hash": nil, "reconcile": time.Minute, "now": k.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := tell(t, c, paidWord(co, "e1")); !errors.Is(err, booking.ErrUnknownPayment) {
			t.Errorf("callback before its payment: %v, want %v", err, booking.ErrUnknownPayment)
		}
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.inbox`); n != 0 {
		t.Errorf("%d events were noted, want none", n)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantTold(t, c, paidWord(co, "e1"), booking.OutcomeConfirmed)
	wantStatus(t, c, b, booking.Confirmed)
	clean(t, c)
}

// https://github.com/InaDarta/promtior-challenge/issues/73: an exclusion constraint ended about 1 run in 9 in a deadlock,
// which leaked as a 500.
func TestReplay_ADeadlockIsTriedAgainAndNobodyHearsOfIt(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	c, ctx, pool := bookingtest.Core(t, url, booking.Config{}), context.Background(), bookingtest.Pool(t, url)
	if n := one[int](t, pool, `SELECT count(*) FROM pg_constraint WHERE contype = 'x' AND connamespace = 'bk'::regnamespace`); n != 0 {
		t.Errorf("%d exclusion constraints, want none", n)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	const lock = `SELECT FROM bk.seat WHERE event_id = 42 AND seat_code = $1 FOR UPDATE`
	if _, err := tx.Exec(ctx, lock, "F6"); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, _, err := c.Hold(ctx, holdOf("ann", "F5", "F6")) // has F5, waits for F6
		got <- err
	}()
	eventually(t, "the hold waits for F6", func() bool {
		return one[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%hold_seats%' AND datname = current_database())`)
	})
	_, err = tx.Exec(ctx, lock, "F5") // against the order: one of the two must die
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || pg.Code != "40P01") {
		t.Fatal(err)
	}
	if err == nil {
		t.Log("the hold was the one that died")
	}
	_ = tx.Rollback(ctx)
	if err := <-got; err != nil {
		t.Errorf("hold: %v, want it to succeed at its second try", err)
	}
	clean(t, c)
}

// https://github.com/saurabhnanda/odd-jobs/issues/115 and https://github.com/rust-playground/relay-rs/pull/22: an UPDATE of rows
// that a LIMIT chose by SKIP LOCKED changed more rows than the limit.
func TestReplay_ASweepOf500Takes500(t *testing.T) {
	const due, most = 2500, 500
	c, _, k, url := shop(t, bookingtest.Sale{Rows: 25, PerRow: 100})
	ctx := context.Background()
	pool, err := booking.OpenWork(ctx, url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	do(t, pool, `ALTER TABLE bk.booking SET (autovacuum_enabled = off)`) // nobody mends the statistics
	do(t, pool, `
WITH s AS (SELECT seat_code, gen_random_uuid() AS id FROM bk.seat WHERE event_id = 42 ORDER BY seat_code LIMIT $1),
b AS (INSERT INTO bk.booking (booking_id, kind, customer, status, event_id, items, quantity, held_since, created_at, expires_at)
      SELECT id, 'SEATS', 'c', 'HOLD', 42, ARRAY[seat_code], 1, $2::timestamptz, $2, $2::timestamptz + interval '1 min' FROM s)
UPDATE bk.seat x SET status = 'HELD', booking_id = s.id, hold_expires_at = $2::timestamptz + interval '1 min' FROM s WHERE x.event_id = 42 AND x.seat_code = s.seat_code`, due, k.Now())
	k.forward(time.Minute)
	sweep := statement(t, "expire")
	for range 2 {
		var expired, released int
		if err := pool.QueryRow(ctx, sweep, pgx.NamedArgs{"now": k.Now(), "most": most}).Scan(&expired, &released); err != nil || expired != most || released != most {
			t.Errorf("%d holds and %d seats, %v, want %d", expired, released, err, most)
		}
	}
	swept := make([]int, 4)
	atOnce(len(swept), func(i int) {
		var released int
		if err := pool.QueryRow(ctx, sweep, pgx.NamedArgs{"now": k.Now(), "most": most}).Scan(&swept[i], &released); err != nil || released != swept[i] {
			t.Errorf("%d holds and %d seats, %v", swept[i], released, err)
		}
		if swept[i] > most {
			t.Errorf("%d holds in one sweep, want at most %d", swept[i], most)
		}
	})
	if err := c.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.outbox WHERE type = 'BookingExpired'`); n != due {
		t.Errorf("%d holds expired, want each of %d once", n, due)
	}
	clean(t, c)
}
