package booking_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/payment"
)

// clockOf is a clock that tests wind forward.
type clockOf struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clockOf { return &clockOf{now: time.Now().UTC().Truncate(time.Millisecond)} }

func (k *clockOf) Now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *clockOf) forward(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

// shop is a core with a fake provider, a clock and 100 seats on sale.
func shop(t testing.TB, sale bookingtest.Sale) (*booking.Core, *fakeProvider, *clockOf, string) {
	t.Helper()
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, sale)
	p, k := newFakeProvider(), newClock()
	return bookingtest.Core(t, url, booking.Config{Providers: []payment.Provider{p}, Now: k.Now}), p, k, url
}

func TestSettle_PaidInTimeSellsTheSeats(t *testing.T) {
	c, _, _, _ := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	co := checkout(t, c, b, "k1")
	if co.Amount != (booking.Money{Amount: 600_000, Currency: "VND"}) {
		t.Errorf("asked for %+v", co.Amount)
	}
	if o, err := tell(t, c, paidWord(co, "e1")); err != nil || o != booking.OutcomeConfirmed {
		t.Fatalf("first callback: %s, %v", o, err)
	}
	for _, again := range []payment.Event{paidWord(co, "e1"), paidWord(co, "e2")} {
		if o, err := tell(t, c, again); err != nil || o != booking.OutcomeDuplicate {
			t.Errorf("callback %s again: %s, %v", again.ID, o, err)
		}
	}
	got, err := c.Booking(context.Background(), b.ID, "ann")
	if err != nil || got.Status != booking.Confirmed || len(got.Payments) != 1 || got.Payments[0].Status != "SUCCEEDED" {
		t.Errorf("booking %+v, %v", got, err)
	}
	if err := c.Release(context.Background(), b.ID, "ann"); !errors.Is(err, booking.ErrConfirmed) {
		t.Errorf("released a sold booking: %v", err)
	}
	clean(t, c)
}

func TestSettle_LateMoneyBecomesOneRefundAndStealsNoSeat(t *testing.T) {
	c, p, k, _ := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	co := checkout(t, c, b, "k1")
	k.forward(10 * time.Minute)
	other := mustHold(t, c, holdOf("bob", "A2", "A3"))
	for i := range 3 {
		want := booking.OutcomeDuplicate
		if i == 0 {
			want = booking.OutcomeLate
		}
		if o, err := tell(t, c, paidWord(co, fmt.Sprint("e", i))); err != nil || o != want {
			t.Errorf("callback %d: %s, %v, want %s", i, o, err, want)
		}
		k.forward(time.Minute)
	}
	p.deaf = 2
	for range 2 {
		if err := c.SendRefunds(ctx); err == nil {
			t.Error("a lost answer is no error")
		}
		again(t, c)
	}
	if err := c.SendRefunds(ctx); err != nil {
		t.Fatal(err)
	}
	if len(p.refunds) != 1 || p.total() != 600_000 {
		t.Errorf("refunds %v, money back %d", p.refunds, p.total())
	}
	if got, err := c.Booking(ctx, b.ID, "ann"); err != nil || got.Status != booking.Failed || got.Payments[0].Status != "REFUNDED" {
		t.Errorf("booking %+v, %v", got, err)
	}
	if got, err := c.Booking(ctx, other.ID, "bob"); err != nil || got.Status != booking.Held {
		t.Errorf("the other booking %+v, %v", got, err)
	}
	clean(t, c)
}

// again makes refunds due at once that were put off.
func again(t testing.TB, c *booking.Core) {
	t.Helper()
	if err := c.Hurry(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestSettle_LateMoneyGetsFreeSeatsBackWhereTheEventSaysSo(t *testing.T) {
	c, p, k, _ := shop(t, bookingtest.Sale{Late: "reacquire"})
	ctx := context.Background()
	b := mustHold(t, c, holdOf("ann", "A1", "A2"))
	co := checkout(t, c, b, "k1")
	k.forward(11 * time.Minute)
	if o, err := tell(t, c, paidWord(co, "e1")); err != nil || o != booking.OutcomeConfirmed {
		t.Fatalf("late callback: %s, %v", o, err)
	}
	late := mustHold(t, c, holdOf("bob", "B1"))
	bco := checkout(t, c, late, "k1")
	k.forward(11 * time.Minute)
	mustHold(t, c, holdOf("eve", "B1"))
	if o, err := tell(t, c, paidWord(bco, "e2")); err != nil || o != booking.OutcomeLate {
		t.Fatalf("late callback for a taken seat: %s, %v", o, err)
	}
	if err := c.SendRefunds(ctx); err != nil || p.total() != 300_000 {
		t.Errorf("refunds: %v, money back %d", err, p.total())
	}
	if err := c.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	clean(t, c)
}

func TestSettle_WrongAmountSecondPaymentAndUnknownPayment(t *testing.T) {
	c, p, _, _ := shop(t, bookingtest.Sale{})
	ctx := context.Background()
	b := mustHold(t, c, holdOf("ann", "A1"))
	short := paidWord(checkout(t, c, b, "k1"), "e1")
	short.Amount--
	if o, err := tell(t, c, short); err != nil || o != booking.OutcomeMismatch {
		t.Errorf("one dong less: %s, %v", o, err)
	}
	first, second := checkout(t, c, b, "k2"), checkout(t, c, b, "k3")
	if o, err := tell(t, c, paidWord(first, "e2")); err != nil || o != booking.OutcomeConfirmed {
		t.Errorf("paid in full: %s, %v", o, err)
	}
	if o, err := tell(t, c, paidWord(second, "e3")); err != nil || o != booking.OutcomeLate {
		t.Errorf("paid twice: %s, %v", o, err)
	}
	if err := c.SendRefunds(ctx); err != nil || p.total() != 300_000-1+300_000 {
		t.Errorf("refunds: %v, money back %d", err, p.total())
	}
	if got, _ := c.Booking(ctx, b.ID, "ann"); got.Status != booking.Confirmed {
		t.Errorf("booking is %s", got.Status)
	}
	unknown := paidWord(first, "e4")
	unknown.PaymentID[3] ^= 1
	if _, err := tell(t, c, unknown); !errors.Is(err, booking.ErrUnknownPayment) {
		t.Errorf("unknown payment: %v", err)
	}
	clean(t, c)
}

func TestCheckout_IsReconciledOnlyWhenItsPageIsOver(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Hold: time.Hour, Checkout: 50 * time.Minute})
	c := bookingtest.Core(t, url, booking.Config{Providers: []payment.Provider{newFakeProvider()}})
	co := checkout(t, c, mustHold(t, c, holdOf("ann", "A1")), "k1")
	var next time.Time
	if err := bookingtest.Pool(t, url).QueryRow(context.Background(), `SELECT next_check_at FROM bk.payment`).Scan(&next); err != nil {
		t.Fatal(err)
	}
	if !next.After(co.PayBy) {
		t.Errorf("asked about at %s, while its customer may pay until %s", next, co.PayBy)
	}
}
