package booking_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/payment"
)

// swapOf asks for seats of event 42 in place of a hold.
func swapOf(b booking.Booking, seats ...string) booking.HoldRequest {
	r := holdOf(b.Customer, seats...)
	r.Replaces = b.ID
	return r
}

// taken holds an error against a TakenError with these conflicts.
func taken(t testing.TB, err error, conflicts ...string) {
	t.Helper()
	var e *booking.TakenError
	if !errors.As(err, &e) || !slices.Equal(e.Conflicts, conflicts) {
		t.Errorf("got %v, want taken seats %v", err, conflicts)
	}
}

// is holds an error against a sentinel.
func is(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHold_IsDeadAtItsEndAndLiveAMillisecondBefore(t *testing.T) {
	c, _, k, _ := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	if !b.ExpiresAt.Equal(k.Now().Add(10 * time.Minute)) {
		t.Errorf("expires %s, want 10 min after %s", b.ExpiresAt, k.Now())
	}
	k.forward(10*time.Minute - time.Millisecond)
	wantStatus(t, c, b, booking.Held)
	_, _, err := c.Hold(ctx, holdOf("bob", "A2", "A3"))
	taken(t, err, "A2")
	k.forward(time.Millisecond)
	wantStatus(t, c, b, booking.Expired)
	_, err = c.Extend(ctx, b.ID, "k", "ann")
	is(t, err, booking.ErrHoldGone)
	_, err = c.Checkout(ctx, booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k"})
	is(t, err, booking.ErrHoldGone)
	_, _, err = c.Hold(ctx, swapOf(b, "A4"))
	is(t, err, booking.ErrHoldGone)
	mustHold(t, c, holdOf("bob", "A2", "A3"))
	clean(t, c)
}

func TestPaid_AtTheEndOfItsHoldIsLateAndAMillisecondBeforeIsInTime(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	a, b := mustHold(t, c, holdOf("ann", "A1")), mustHold(t, c, holdOf("bob", "B1"))
	ca, cb := checkout(t, c, a, "k"), checkout(t, c, b, "k")
	k.forward(10*time.Minute - time.Millisecond)
	wantTold(t, c, paidWord(ca, "e1"), booking.OutcomeConfirmed)
	k.forward(time.Millisecond)
	wantTold(t, c, paidWord(cb, "e2"), booking.OutcomeLate)
	wantStatus(t, c, a, booking.Confirmed)
	wantStatus(t, c, b, booking.Failed)
	pool := bookingtest.Pool(t, url)
	if one, other := seatStatus(t, pool, "A1"), seatStatus(t, pool, "B1"); one != "SOLD" || other != "AVAILABLE" {
		t.Errorf("A1 is %s and B1 is %s, want SOLD and AVAILABLE", one, other)
	}
	mustHold(t, c, holdOf("eve", "B1"))
	clean(t, c)
}

func TestExtend_LastsAnotherWhileUpToTheAgeOfTheEventAndOnceForAKey(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{}) // 10 min, at most 20
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	began := k.Now()
	step := func(at time.Duration, key string, want time.Duration) {
		t.Helper()
		k.forward(began.Add(at).Sub(k.Now()))
		got, err := c.Extend(ctx, b.ID, key, "ann")
		if want == 0 {
			is(t, err, booking.ErrExtendLimit)
			return
		}
		if err != nil || !got.ExpiresAt.Equal(began.Add(want)) {
			t.Errorf("key %q at %s: %s, %v, want %s", key, at, got.ExpiresAt.Sub(began), err, want)
		}
		if n := one[int](t, pool, `SELECT count(*) FROM bk.seat WHERE booking_id = $1 AND hold_expires_at = $2`, b.ID, got.ExpiresAt); n != 2 {
			t.Errorf("key %q: %d seats end with their hold, want 2", key, n)
		}
	}
	step(5*time.Minute, "k1", 15*time.Minute)
	step(6*time.Minute, "k1", 15*time.Minute)
	step(7*time.Minute, "", 17*time.Minute)
	step(8*time.Minute, "", 18*time.Minute)
	step(12*time.Minute, "k2", 20*time.Minute)
	step(13*time.Minute, "k3", 0)
	step(13*time.Minute, "", 0)
	step(13*time.Minute, "k1", 20*time.Minute) // was done: the answer is the hold as it stands
	k.forward(7 * time.Minute)
	for _, key := range []string{"k1", "k4"} {
		_, err := c.Extend(ctx, b.ID, key, "ann")
		is(t, err, booking.ErrHoldGone)
	}
	mustHold(t, c, holdOf("bob", "A1"))
	clean(t, c)
}

func TestExtend_TwentyAtOnceWithOneKeyExtendOnce(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	k := newClock()
	cores := nodes(t, url, 2, booking.Config{Now: k.Now})
	b := mustHold(t, cores[0], holdOf("ann", "A1"))
	k.forward(time.Minute)
	atOnce(20, func(i int) {
		if _, err := cores[i%2].Extend(context.Background(), b.ID, "k", "ann"); err != nil {
			t.Error(err)
		}
	})
	pool := bookingtest.Pool(t, url)
	if n := one[int](t, pool, `SELECT cardinality(extend_keys) FROM bk.booking`); n != 1 {
		t.Errorf("%d keys are noted, want 1", n)
	}
	if n := events(t, pool, "SeatsHeld", uuid.Nil); n != 0 {
		t.Errorf("%d events", n)
	}
	if n := one[int](t, pool, `SELECT count(*) FROM bk.outbox WHERE type = 'SeatsHeld'`); n != 2 {
		t.Errorf("%d times the seats were held, want 2: the hold and one extension", n)
	}
	clean(t, cores[0])
}

func TestSwap_KeepsWhatOverlapsAndFreesTheRest(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	pool := bookingtest.Pool(t, url)
	old := mustHold(t, c, holdOf("ann", "A1", "A2"))
	k.forward(time.Minute)
	b := mustHold(t, c, swapOf(old, "A2", "A3"))
	if !b.ExpiresAt.Equal(k.Now().Add(10 * time.Minute)) {
		t.Errorf("expires %s, want 10 min from now", b.ExpiresAt)
	}
	wantStatus(t, c, old, booking.Cancelled)
	wantStatus(t, c, b, booking.Held)
	if holds, seats := heldBy(t, pool); holds != 1 || seats != 2 {
		t.Errorf("%d holds of %d seats, want 1 of 2", holds, seats)
	}
	released := one[[]string](t, pool, `SELECT ARRAY(SELECT jsonb_array_elements_text(payload->'seats')) FROM bk.outbox WHERE type = 'SeatsReleased' AND payload->>'hold_id' = $1::text`, old.ID)
	if !slices.Contains(released, "A1") || events(t, pool, "BookingCancelled", old.ID) != 1 {
		t.Errorf("released %v", released)
	}
	mustHold(t, c, holdOf("bob", "A1"))
	clean(t, c)
}

func TestSwap_DoesNotStretchAHoldBeyondTheAgeOfTheEvent(t *testing.T) {
	c, _, k, _ := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "A1"))
	began := k.Now()
	for i, want := range []time.Duration{19, 20, 20} {
		k.forward(9*time.Minute - time.Duration(i)*4*time.Minute) // at 9, 14, 15
		b = mustHold(t, c, swapOf(b, bookingtest.Seat(0, i+1)))
		if !b.ExpiresAt.Equal(began.Add(want * time.Minute)) {
			t.Errorf("swap %d: ends after %s, want %d min", i, b.ExpiresAt.Sub(began), want)
		}
	}
	_, err := c.Extend(context.Background(), b.ID, "k", "ann")
	is(t, err, booking.ErrExtendLimit)
	k.forward(began.Add(20 * time.Minute).Sub(k.Now()))
	_, _, err = c.Hold(context.Background(), swapOf(b, "B1"))
	is(t, err, booking.ErrHoldGone)
	mustHold(t, c, holdOf("bob", "A4"))
	clean(t, c)
}

func TestSwap_ThatLosesKeepsTheOldHoldAsItWas(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{Cap: 3})
	ctx := context.Background()
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	mustHold(t, c, holdOf("bob", "A3"))
	mustHold(t, c, holdOf("ann", "B1"))
	k.forward(time.Minute)
	_, _, err := c.Hold(ctx, swapOf(b, "A2", "A3"))
	taken(t, err, "A3")
	_, _, err = c.Hold(ctx, swapOf(b, "A2", "A4", "A5"))
	if !errors.As(err, new(*booking.LimitError)) {
		t.Errorf("past the cap: %v", err)
	}
	got := wantStatus(t, c, b, booking.Held)
	if !got.ExpiresAt.Equal(b.ExpiresAt) || !slices.Equal(got.Seats(), []string{"A1", "A2"}) {
		t.Errorf("the old hold has %v until %s, want %v until %s", got.Seats(), got.ExpiresAt, b.Seats(), b.ExpiresAt)
	}
	if n := one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.booking`); n != 3 {
		t.Errorf("%d bookings, want 3", n)
	}
	mustHold(t, c, swapOf(b, "A4", "A5")) // as many as before: the cap does not count the old ones
	clean(t, c)
}

func TestSwap_ARepeatedRequestIsTheSameSwap(t *testing.T) {
	c, _, _, _ := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	old := mustHold(t, c, holdOf("ann", "A1"))
	r := swapOf(old, "A2")
	r.Key = "k"
	b := mustHold(t, c, r)
	got, replayed, err := c.Hold(ctx, r)
	if err != nil || !replayed || got.ID != b.ID {
		t.Errorf("again: %s, replayed %t, %v, want %s", got.ID, replayed, err, b.ID)
	}
	for name, other := range map[string]booking.HoldRequest{"other seats": swapOf(old, "A3"), "no swap": holdOf("ann", "A2")} {
		other.Key = "k"
		if _, _, err := c.Hold(ctx, other); !errors.Is(err, booking.ErrKeyReuse) {
			t.Errorf("%s: %v, want %v", name, err, booking.ErrKeyReuse)
		}
	}
	_, _, err = c.Hold(ctx, swapOf(old, "A3"))
	is(t, err, booking.ErrHoldGone)
	clean(t, c)
}

func TestSwap_OfOneHoldByTwentyAtOnceHappensOnce(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Rows: 3, PerRow: 20})
	cores := nodes(t, url, 2, booking.Config{})
	for round := range 6 {
		old := mustHold(t, cores[0], holdOf("ann", bookingtest.Seat(0, round)))
		keyed := round%2 == 1
		won := make([]bool, 20)
		atOnce(len(won), func(i int) {
			r := swapOf(old, bookingtest.Seat(1, i))
			if keyed {
				r = swapOf(old, bookingtest.Seat(2, round))
				r.Key = old.ID.String()
			}
			_, replayed, err := cores[i%2].Hold(context.Background(), r)
			won[i] = err == nil && !replayed
			if err != nil && (keyed || !errors.Is(err, booking.ErrHoldGone)) {
				t.Errorf("round %d: %v", round, err)
			}
		})
		if trues(won) != 1 {
			t.Errorf("round %d: swapped %d times, want once", round, trues(won))
		}
		if n := one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.booking WHERE replaces = $1`, old.ID); n != 1 {
			t.Errorf("round %d: %d holds replaced it, want 1", round, n)
		}
		if keyed {
			continue
		}
		do(t, bookingtest.Pool(t, url), `WITH b AS (UPDATE bk.booking SET status = 'CANCELLED', resolved_at = now() WHERE status = 'HOLD' RETURNING booking_id)
			UPDATE bk.seat SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL WHERE booking_id IN (SELECT booking_id FROM b)`)
	}
	clean(t, cores[0])
}

func TestSwap_OfAHoldThatIsBeingPaidForRefundsTheMoney(t *testing.T) {
	c, p, _, _ := shop(t, bookingtest.Sale{})
	old := mustHold(t, c, holdOf("ann", "A1"))
	co := checkout(t, c, old, "k")
	b := mustHold(t, c, swapOf(old, "A1", "A2"))
	wantTold(t, c, paidWord(co, "e1"), booking.OutcomeLate)
	wantStatus(t, c, old, booking.Cancelled)
	wantStatus(t, c, b, booking.Held)
	if err := c.SendRefunds(context.Background()); err != nil || p.total() != 300_000 {
		t.Errorf("%v, money back %d", err, p.total())
	}
	wantTold(t, c, paidWord(checkout(t, c, b, "k"), "e2"), booking.OutcomeConfirmed)
	clean(t, c)
}

func TestRelease_TwiceIsAsGoodAsOnce(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	for range 2 {
		if err := c.Release(ctx, b.ID, "ann"); err != nil {
			t.Error(err)
		}
	}
	wantStatus(t, c, b, booking.Cancelled)
	other := mustHold(t, c, holdOf("bob", "A1"))
	if err := c.Release(ctx, b.ID, "ann"); err != nil {
		t.Error(err)
	}
	wantStatus(t, c, other, booking.Held)
	if n := events(t, pool, "BookingCancelled", b.ID); n != 1 {
		t.Errorf("%d events say that it was given up, want 1", n)
	}
	k.forward(10 * time.Minute)
	if err := c.Release(ctx, other.ID, "bob"); err != nil { // ended by itself
		t.Error(err)
	}
	if s := seatStatus(t, pool, "A1"); s != "AVAILABLE" {
		t.Errorf("A1 is %s", s)
	}
	clean(t, c)
}

func TestCancel_OfASaleRefundsAndFreesInOneCommit(t *testing.T) {
	c, p, _, url := shop(t, bookingtest.Sale{})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	co := checkout(t, c, b, "k")
	wantTold(t, c, paidWord(co, "e1"), booking.OutcomeConfirmed)
	for range 3 {
		got, err := c.Cancel(ctx, b.ID, "ann")
		if err != nil || got.Status != booking.Cancelled || len(got.Payments) != 1 || len(got.Payments[0].Refunds) != 1 || got.Payments[0].Refunds[0].Reason != "customer_cancel" {
			t.Errorf("cancelled: %+v, %v", got, err)
		}
	}
	sameCommit(t, pool, co.PaymentID)
	tickets := one[int](t, pool, `SELECT count(*) FROM bk.ticket t JOIN bk.booking b USING (booking_id) WHERE t.status = 'VOID' AND t.xmin::text = b.xmin::text`)
	seats := one[int](t, pool, `SELECT count(*) FROM bk.seat s, bk.booking b WHERE s.status = 'AVAILABLE' AND s.xmin::text = b.xmin::text`)
	if tickets != 2 || seats != 2 {
		t.Errorf("%d tickets void and %d seats free by the same transaction, want 2 and 2", tickets, seats)
	}
	wantTold(t, c, paidWord(co, "e2"), booking.OutcomeDuplicate)
	again := mustHold(t, c, holdOf("bob", "A1", "A2"))
	wantTold(t, c, paidWord(checkout(t, c, again, "k"), "e3"), booking.OutcomeConfirmed)
	if _, err := c.Cancel(ctx, b.ID, "ann"); err != nil {
		t.Error(err)
	}
	wantStatus(t, c, again, booking.Confirmed)
	if err := c.SendRefunds(ctx); err != nil || p.total() != 600_000 || len(p.refunds) != 1 {
		t.Errorf("%v, money back %d by %d refunds", err, p.total(), len(p.refunds))
	}
	clean(t, c)
}

func TestCancel_IsRefusedOnceTheEventBeganOrATicketWasUsed(t *testing.T) {
	c, p, k, url := shop(t, bookingtest.Sale{StartsIn: time.Hour})
	ctx := context.Background()
	used, late := mustHold(t, c, holdOf("ann", "A1")), mustHold(t, c, holdOf("bob", "B1"))
	wantTold(t, c, paidWord(checkout(t, c, used, "k"), "e1"), booking.OutcomeConfirmed)
	wantTold(t, c, paidWord(checkout(t, c, late, "k"), "e2"), booking.OutcomeConfirmed)
	do(t, bookingtest.Pool(t, url), `UPDATE bk.ticket SET status = 'USED', used_at = now() WHERE booking_id = $1`, used.ID)
	_, err := c.Cancel(ctx, used.ID, "ann")
	is(t, err, booking.ErrNotCancellable)
	k.forward(2 * time.Hour)
	_, err = c.Cancel(ctx, late.ID, "bob")
	is(t, err, booking.ErrNotCancellable)
	if err := c.SendRefunds(ctx); err != nil || p.total() != 0 {
		t.Errorf("%v, money back %d", err, p.total())
	}
	clean(t, c)
}

func TestCancel_ByTwentyAtOnceRefundsOnce(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	p := newFakeProvider()
	cores := nodes(t, url, 2, booking.Config{Providers: []payment.Provider{p}})
	for row := range 5 {
		b := mustHold(t, cores[0], holdOf("ann", bookingtest.Seat(row, 0)))
		wantTold(t, cores[0], paidWord(checkout(t, cores[0], b, "k"), b.ID.String()), booking.OutcomeConfirmed)
		atOnce(20, func(i int) {
			if got, err := cores[i%2].Cancel(context.Background(), b.ID, "ann"); err != nil || got.Status != booking.Cancelled {
				t.Errorf("cancel %d: %s, %v", i, got.Status, err)
			}
		})
		wantStatus(t, cores[1], b, booking.Cancelled)
	}
	if n := one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.refund`); n != 5 {
		t.Errorf("%d refunds, want 5", n)
	}
	clean(t, cores[0])
}

func TestFree_TicketsAreConfirmedWithoutAProviderAndCancelledWithoutARefund(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Price: -1})
	c, ctx := bookingtest.Core(t, url, booking.Config{}), context.Background()
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	r := booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k"}
	for i := range 2 {
		co, err := c.Checkout(ctx, r)
		if err != nil || co.URL != "" || co.Replayed != (i == 1) {
			t.Errorf("checkout %d: %+v, %v", i, co, err)
		}
	}
	wantStatus(t, c, b, booking.Confirmed)
	r.Key = "other"
	_, err := c.Checkout(ctx, r)
	is(t, err, booking.ErrHoldGone)
	pool := bookingtest.Pool(t, url)
	if n := one[int](t, pool, `SELECT count(*) FROM bk.ticket WHERE status = 'VALID'`); n != 2 {
		t.Errorf("%d tickets, want 2", n)
	}
	clean(t, c)
	got, err := c.Cancel(ctx, b.ID, "ann")
	if err != nil || got.Status != booking.Cancelled || len(got.Payments) != 1 || len(got.Payments[0].Refunds) != 0 {
		t.Errorf("cancelled: %+v, %v", got, err)
	}
	mustHold(t, c, holdOf("bob", "A1", "A2"))
	clean(t, c)
}

func TestFree_TwentyCheckoutsAtOnceConfirmOnce(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Price: -1})
	cores := nodes(t, url, 2, booking.Config{})
	b := mustHold(t, cores[0], holdOf("ann", "A1"))
	atOnce(20, func(i int) {
		if _, err := cores[i%2].Checkout(context.Background(), booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k"}); err != nil {
			t.Errorf("checkout %d: %v", i, err)
		}
	})
	wantStatus(t, cores[1], b, booking.Confirmed)
	if n := events(t, bookingtest.Pool(t, url), "BookingConfirmed", b.ID); n != 1 {
		t.Errorf("confirmed %d times, want once", n)
	}
	clean(t, cores[0])
}

func TestTicketTypes_HavePricesOfTheirOwn(t *testing.T) {
	c, _, _, _ := shop(t, bookingtest.Sale{})
	r := booking.HoldRequest{Admission: booking.Admission{Customer: "ann"}, Event: 42, Key: "k",
		Choices: []booking.Choice{{Seat: "A2", TicketType: "child"}, {Seat: "A1"}}}
	b := mustHold(t, c, r)
	want := []booking.Item{{Seat: "A1", Tier: "std", TicketType: "standard", Amount: 300_000}, {Seat: "A2", Tier: "std", TicketType: "child", Amount: 150_000}}
	if !slices.Equal(b.Items, want) || b.Amount.Amount != 450_000 {
		t.Errorf("held %+v for %d", b.Items, b.Amount.Amount)
	}
	if got := wantStatus(t, c, b, booking.Held); !slices.Equal(got.Items, want) || got.Amount != b.Amount {
		t.Errorf("read %+v for %d", got.Items, got.Amount.Amount)
	}
	r.Choices = []booking.Choice{{Seat: "A2"}, {Seat: "A1"}}
	_, _, err := c.Hold(context.Background(), r)
	is(t, err, booking.ErrKeyReuse)
	r.Key, r.Choices = "", []booking.Choice{{Seat: "B1", TicketType: "dog"}}
	if _, _, err := c.Hold(context.Background(), r); !errors.As(err, new(*booking.InvalidError)) {
		t.Errorf("a type that is not sold: %v", err)
	}
	co := checkout(t, c, b, "k")
	if co.Amount.Amount != 450_000 {
		t.Errorf("asked for %d", co.Amount.Amount)
	}
	wantTold(t, c, paidWord(co, "e"), booking.OutcomeConfirmed)
	clean(t, c)
}

func TestChannels_OpenTheirSeatsAndNoOthers(t *testing.T) {
	c, _, _, url := shop(t, bookingtest.Sale{})
	do(t, bookingtest.Pool(t, url), `UPDATE bk.seat SET channel = 3 WHERE seat_code IN ('A1', 'A2')`)
	do(t, bookingtest.Pool(t, url), `UPDATE bk.seat SET channel = 62 WHERE seat_code = 'A4'`)
	for _, row := range []struct {
		channels booking.Channels
		seats    []string
		missing  []string
	}{
		{0, []string{"A1", "A3"}, []string{"A1"}},
		{1, []string{"A1"}, []string{"A1"}},
		{1 << 3, []string{"A2", "A3"}, []string{"A3"}},
		{1 << 4, []string{"A1", "A3"}, []string{"A1", "A3"}},
		{1<<3 | 1, []string{"A4"}, []string{"A4"}},
		{1<<3 | 1, []string{"A1", "A3"}, nil},
		{1 << 62, []string{"A4"}, nil},
	} {
		r := holdOf("ann", row.seats...)
		r.Channels = row.channels
		_, _, err := c.Hold(context.Background(), r)
		if row.missing == nil && err == nil {
			continue
		}
		taken(t, err, row.missing...)
	}
	clean(t, c)
}

func TestBlocked_SeatsAreHeldByNobody(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	do(t, bookingtest.Pool(t, url), `UPDATE bk.seat SET status = 'BLOCKED' WHERE seat_code = 'A2'`)
	r := holdOf("ann", "A1", "A2")
	r.Channels = 1<<63 - 1 // all
	_, _, err := c.Hold(context.Background(), r)
	taken(t, err, "A2")
	k.forward(time.Hour)
	b := mustHold(t, c, holdOf("ann", "A1"))
	_, _, err = c.Hold(context.Background(), swapOf(b, "A2"))
	taken(t, err, "A2")
	clean(t, c)
}

func TestOwner_NobodyElseReachesABooking(t *testing.T) {
	c, _, _, url := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	bookingtest.Open(t, url, bookingtest.Sale{Event: 43})
	b := mustHold(t, c, holdOf("ann", "A1"))
	elsewhere := holdOf("ann", "B1")
	elsewhere.Event, elsewhere.Replaces = 43, b.ID
	stolen := holdOf("bob", "A2")
	stolen.Replaces = b.ID
	same := holdOf("bob", "A1")
	same.Replaces = b.ID
	for name, try := range map[string]struct {
		do   func() error
		want error
	}{
		"read":    {func() error { _, err := c.Booking(ctx, b.ID, "bob", "eve"); return err }, booking.ErrNoBooking},
		"nobody":  {func() error { _, err := c.Booking(ctx, b.ID); return err }, booking.ErrNoBooking},
		"extend":  {func() error { _, err := c.Extend(ctx, b.ID, "k", "bob"); return err }, booking.ErrHoldGone},
		"release": {func() error { return c.Release(ctx, b.ID, "bob") }, booking.ErrNoBooking},
		"cancel":  {func() error { _, err := c.Cancel(ctx, b.ID, "bob"); return err }, booking.ErrNoBooking},
		"swap":    {func() error { _, _, err := c.Hold(ctx, stolen); return err }, booking.ErrHoldGone},
		"take":    {func() error { _, _, err := c.Hold(ctx, same); return err }, booking.ErrHoldGone},
		"event":   {func() error { _, _, err := c.Hold(ctx, elsewhere); return err }, booking.ErrHoldGone},
		"checkout": {func() error {
			_, err := c.Checkout(ctx, booking.CheckoutRequest{Admission: booking.Admission{Customer: "bob"}, Hold: b.ID, Key: "k"})
			return err
		}, booking.ErrHoldGone},
		"unnamed": {func() error { _, _, err := c.Hold(ctx, holdOf("", "A2")); return err }, booking.ErrCustomerMissing},
	} {
		if err := try.do(); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
	}
	if got, err := c.Booking(ctx, b.ID, "bob", "ann"); err != nil || got.Customer != "ann" {
		t.Errorf("one of several names: %+v, %v", got, err)
	}
	wantStatus(t, c, b, booking.Held)
	clean(t, c)
}

func TestIdempotency_AKeyIsItsCustomersAndItsRequests(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	r := holdOf("ann", "A1", "A2")
	r.Key = "k"
	b := mustHold(t, c, r)
	slices.Reverse(r.Choices)
	for _, core := range []*booking.Core{c, bookingtest.Core(t, url, booking.Config{Now: k.Now})} {
		got, replayed, err := core.Hold(ctx, r)
		if err != nil || !replayed || got.ID != b.ID || !got.ExpiresAt.Equal(b.ExpiresAt) {
			t.Errorf("again: %+v, replayed %t, %v", got, replayed, err)
		}
	}
	for _, seats := range [][]string{{"A1"}, {"A1", "A3"}, {"B1", "B2"}} {
		other := holdOf("ann", seats...)
		other.Key = "k"
		_, _, err := c.Hold(ctx, other)
		is(t, err, booking.ErrKeyReuse)
	}
	bob := holdOf("bob", "B1")
	bob.Key = "k"
	mustHold(t, c, bob)
	k.forward(10 * time.Minute)
	mustHold(t, c, holdOf("eve", "A1"))
	got, replayed, err := c.Hold(ctx, r)
	if err != nil || !replayed || got.ID != b.ID || got.Status != booking.Expired {
		t.Errorf("after its end: %+v, replayed %t, %v", got, replayed, err)
	}
	clean(t, c)
}

func TestIdempotency_ACheckoutsKeyOpensOnePage(t *testing.T) {
	c, p, _, _ := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	b := mustHold(t, c, holdOf("ann", "A1"))
	r := booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k", ReturnURL: "https://tickets.example/back"}
	first, err := c.Checkout(ctx, r)
	if err != nil || first.URL == "" || first.Replayed {
		t.Errorf("%+v, %v", first, err)
	}
	for range 3 {
		if co, err := c.Checkout(ctx, r); err != nil || !co.Replayed || co.PaymentID != first.PaymentID || co.URL != first.URL {
			t.Errorf("again: %+v, %v, want %+v", co, err, first)
		}
	}
	if len(p.started) != 1 {
		t.Errorf("%d pages, want 1", len(p.started))
	}
	r.ReturnURL = "https://elsewhere.example"
	_, err = c.Checkout(ctx, r)
	is(t, err, booking.ErrKeyReuse)
	r.Key = ""
	_, err = c.Checkout(ctx, r)
	is(t, err, booking.ErrKeyMissing)
}

func TestCheckout_EndsBeforeItsHoldDoes(t *testing.T) {
	c, _, k, _ := shop(t, bookingtest.Sale{}) // 10 min, 8 to pay
	b := mustHold(t, c, holdOf("ann", "A1"))
	for _, row := range []struct{ after, left time.Duration }{{0, 8 * time.Minute}, {5 * time.Minute, 3 * time.Minute}, {2*time.Minute + 30*time.Second, 30 * time.Second}} {
		k.forward(row.after)
		if co := checkout(t, c, b, row.after.String()); !co.PayBy.Equal(k.Now().Add(row.left)) || co.PayBy.After(b.ExpiresAt.Add(-2*time.Minute)) {
			t.Errorf("after another %s: pay by %s, want %s from now", row.after, co.PayBy, row.left)
		}
	}
	k.forward(time.Millisecond)
	r := booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "late"}
	_, err := c.Checkout(context.Background(), r)
	is(t, err, booking.ErrHoldExpiring)
	if _, err := c.Extend(context.Background(), b.ID, "k", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Checkout(context.Background(), r); err != nil {
		t.Errorf("after extending: %v", err)
	}
	clean(t, c)
}

func TestHold_OfWhatCannotBe(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{MaxSeats: 4})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	for _, r := range []booking.HoldRequest{holdOf("ann"), holdOf("ann", "Z9"), holdOf("ann", "A1", "a2"), holdOf("ann", "A1", "A2", "A3", "A4", "A5"), holdOf("ann", "A1 ")} {
		if _, _, err := c.Hold(ctx, r); !errors.As(err, new(*booking.InvalidError)) {
			t.Errorf("%v: %v, want an InvalidError", r.Choices, err)
		}
	}
	r := holdOf("ann", "A1")
	r.Event = 7
	_, _, err := c.Hold(ctx, r)
	is(t, err, booking.ErrNoEvent)
	for set, back := range map[string]string{
		`status = 'PAUSED'`: `status = 'ON_SALE'`, `status = 'DRAFT'`: `status = 'ON_SALE'`,
		`sales_open_at = $1::timestamptz + interval '1 ms'`: `sales_open_at = '-infinity'`,
		`sales_close_at = $1::timestamptz`:                  `sales_close_at = $1::timestamptz + interval '1 hour'`,
	} {
		do(t, pool, `UPDATE bk.event SET `+set+` WHERE coalesce($1, now()) IS NOT NULL`, k.Now())
		_, _, err := c.Hold(ctx, holdOf("ann", "A1"))
		is(t, err, booking.ErrNotOnSale)
		do(t, pool, `UPDATE bk.event SET `+back+` WHERE coalesce($1, now()) IS NOT NULL`, k.Now())
		b := mustHold(t, c, holdOf("ann", "A1"))
		if err := c.Release(ctx, b.ID, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	clean(t, c)
}
