package booking_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/payment"
)

func TestBounds_AHoldHasFiveOpenPagesAndNoSixth(t *testing.T) {
	c, _, _, url := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "A1"))
	for i := range 5 {
		checkout(t, c, b, fmt.Sprint("k", i))
	}
	r := booking.CheckoutRequest{Admission: booking.Admission{Customer: "ann"}, Hold: b.ID, Key: "k5"}
	var limit *booking.LimitError
	if _, err := c.Checkout(context.Background(), r); !errors.As(err, &limit) {
		t.Errorf("a sixth page: %v, want a LimitError", err)
	}
	if n := one[int](t, bookingtest.Pool(t, url), `SELECT count(*) FROM bk.payment`); n != 5 {
		t.Errorf("%d payments, want 5", n)
	}
	r.Key = "k2"
	if co, err := c.Checkout(context.Background(), r); err != nil || !co.Replayed {
		t.Errorf("one of the five again: %+v, %v", co, err)
	}
}

func TestBounds_ARefundThatFailedIsNotDoneByAnOlderWord(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{})
	b := mustHold(t, c, holdOf("ann", "A1"))
	co := checkout(t, c, b, "k")
	k.forward(11 * time.Minute)
	wantTold(t, c, paidWord(co, "e1"), booking.OutcomeLate)
	pool := bookingtest.Pool(t, url)
	id := one[uuid.UUID](t, pool, `SELECT refund_id FROM bk.refund`)
	for _, ev := range []payment.Event{
		{ID: "f", Kind: payment.RefundFailed, PaymentID: co.PaymentID, RefundID: id, Amount: 300_000, Currency: "VND"},
		{ID: "d", Kind: payment.Refunded, PaymentID: co.PaymentID, RefundID: id, Amount: 300_000, Currency: "VND"},
	} {
		if _, err := tell(t, c, ev); err != nil {
			t.Fatal(err)
		}
	}
	if got := one[string](t, pool, `SELECT status FROM bk.refund`); got != "FAILED" {
		t.Errorf("the refund is %s, want FAILED: its customer has no money", got)
	}
	if found, err := c.Audit(context.Background()); err != nil || len(found) != 1 || found[0].Rule != "refund not done" {
		t.Errorf("audit: %v, %v, want the refund", found, err)
	}
}

func TestBounds_ExtendingByAMomentWritesNothingAndKeepsFewKeys(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{MaxAge: time.Hour})
	ctx, pool := context.Background(), bookingtest.Pool(t, url)
	b := mustHold(t, c, holdOf("ann", "A1"))
	events := func() int { return one[int](t, pool, `SELECT count(*)::int FROM bk.outbox`) }
	before := events()
	for i := range 20 {
		if got, err := c.Extend(ctx, b.ID, fmt.Sprint("quick", i), "ann"); err != nil || !got.ExpiresAt.Equal(b.ExpiresAt) {
			t.Fatalf("extended at once: %s, %v, want %s", got.ExpiresAt, err, b.ExpiresAt)
		}
	}
	if n := events() - before; n != 0 {
		t.Errorf("%d events for nothing", n)
	}
	for i := range 12 {
		k.forward(2 * time.Second)
		if _, err := c.Extend(ctx, b.ID, fmt.Sprint("key", i), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](t, pool, `SELECT cardinality(extend_keys) FROM bk.booking`); n > 8 {
		t.Errorf("%d keys are kept, want at most 8", n)
	}
	until := one[time.Time](t, pool, `SELECT expires_at FROM bk.booking`)
	k.forward(2 * time.Second)
	if got, err := c.Extend(ctx, b.ID, "key11", "ann"); err != nil || !got.ExpiresAt.Equal(until) {
		t.Errorf("the last key again: %s, %v, want %s", got.ExpiresAt, err, until)
	}
}

// Attaching a partition waits for whoever reads the seats, and everybody waits behind it: so it must not wait.
func TestBounds_MakingPartitionsStopsNoSale(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	c, ctx, pool := bookingtest.Core(t, url, booking.Config{}), context.Background(), bookingtest.Pool(t, url)
	mustHold(t, c, holdOf("first", "J10"))
	do(t, pool, `INSERT INTO bk.event (event_id, kind, name, starts_at, venue_tz, currency) VALUES (7000001, 'concert', 'far', now(), 'UTC', 'VND')`)
	reader, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(ctx) }()
	if _, err := reader.Exec(ctx, `SELECT count(*) FROM bk.seat`); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() { made <- booking.MakePartitions(ctx, pool) }()
	for i := range 40 { // a hold that waited for the reader would end in ErrBusy after 2 s
		mustHold(t, c, holdOf(fmt.Sprint("c", i), bookingtest.Seat(i/10, i%10)))
		time.Sleep(10 * time.Millisecond)
	}
	if one[bool](t, pool, `SELECT to_regclass('bk.seat_7') IS NOT NULL`) {
		t.Error("the partition was attached under the reader: this test shows nothing")
	}
	if err := reader.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Errorf("made in the end: %v", err)
	}
	if !one[bool](t, pool, `SELECT to_regclass('bk.seat_7') IS NOT NULL`) {
		t.Error("there is no partition for the event")
	}
}

// Seats that hang in one event leave the slots for holds decided by themselves to the others.
func TestBounds_HangingSeatsOfOneEventDelayNoOtherEvent(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	bookingtest.Open(t, url, bookingtest.Sale{Event: 43})
	c, ctx, pool := bookingtest.Core(t, url, booking.Config{}), context.Background(), bookingtest.Pool(t, url)
	old := holdOf("ann", "A1")
	old.Event = 43
	held := mustHold(t, c, old)
	hanging, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hanging.Exec(ctx, `SELECT FROM bk.seat WHERE event_id = 42 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var ends []chan error
	for i := range 20 {
		end := make(chan error, 1)
		ends = append(ends, end)
		go func() {
			_, _, err := c.Hold(ctx, holdOf(fmt.Sprint("h", i), bookingtest.Seat(i/10, i%10)))
			end <- err
		}()
	}
	waitsForALock(t, url, "bk.seat")
	swap := old
	swap.Choices, swap.Replaces = bookingtest.Choose("A2"), held.ID
	mustHold(t, c, swap) // all of them hang still, or the next line fails
	for i, end := range ends {
		select {
		case err := <-end:
			if err == nil {
				t.Errorf("hold %d won a locked seat", i)
			}
		default:
		}
	}
	if err := hanging.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		<-end
	}
	clean(t, c)
}

// brokenLimit refuses every try that it is asked about.
type brokenLimit struct{ asked int }

func (l *brokenLimit) Allow(context.Context, int64, string, int) (time.Duration, bool) {
	l.asked++
	return time.Minute, false
}

func TestBounds_TriesAreNotCountedWhileTheDatabaseCanNotDecide(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{PerMinute: 1})
	limit := &brokenLimit{}
	c, ctx, pool := bookingtest.Core(t, url, booking.Config{Limits: limit}), context.Background(), bookingtest.Pool(t, url)
	var refused *booking.LimitError
	if _, _, err := c.Hold(ctx, holdOf("ann", "A1")); !errors.As(err, &refused) || limit.asked != 1 {
		t.Fatalf("asked %d times: %v", limit.asked, err)
	}
	do(t, pool, `UPDATE bk.event SET holds_per_min = 0`)
	eventually(t, "the event is read anew", func() bool {
		e, err := c.Event(ctx, 42)
		return err == nil && e.HoldsPerMin == 0
	})
	locked, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locked.Exec(ctx, `SELECT FROM bk.seat WHERE seat_code = 'A1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Hold(ctx, holdOf("ann", "A1")); !errors.Is(err, booking.ErrBusy) {
		t.Fatalf("a locked seat: %v", err)
	}
	if err := locked.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	do(t, pool, `UPDATE bk.event SET holds_per_min = 1`)
	eventually(t, "the limit is back", func() bool {
		e, err := c.Event(ctx, 42)
		return err == nil && e.HoldsPerMin == 1
	})
	mustHold(t, c, holdOf("ann", "A1")) // as the 503 said
	if limit.asked != 1 {
		t.Errorf("asked %d times, want 1", limit.asked)
	}
}

func TestNext_IsTheSoonestEventOfTheRoomOrOneThatNeedsNone(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{Event: 1, Rooms: []string{"arena"}, StartsIn: 48 * time.Hour})
	bookingtest.Open(t, url, bookingtest.Sale{Event: 2, Rooms: []string{"arena"}, StartsIn: 24 * time.Hour})
	bookingtest.Open(t, url, bookingtest.Sale{Event: 3, StartsIn: time.Hour})
	bookingtest.Open(t, url, bookingtest.Sale{Event: 4, Rooms: []string{"arena"}, StartsIn: time.Minute})
	do(t, bookingtest.Pool(t, url), `UPDATE bk.event SET status = 'PAUSED' WHERE event_id = 4`)
	c := bookingtest.Core(t, url, booking.Config{})
	for room, want := range map[string]int64{"arena": 2, "other": 3, "": 3} {
		if got, err := c.Next(context.Background(), room); err != nil || got != want {
			t.Errorf("of room %q: %d, %v, want %d", room, got, err, want)
		}
	}
	do(t, bookingtest.Pool(t, url), `UPDATE bk.event SET status = 'CLOSED'`)
	if _, err := c.Next(context.Background(), "arena"); !errors.Is(err, booking.ErrNoEvent) {
		t.Errorf("nothing on sale: %v", err)
	}
}
