package booking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/payment"
)

// The torture: many customers on few seats, on two nodes, whose holds end after a fraction of a second, do all that a customer
// can do, while callbacks come twice and at once, pages are reconciled and holds are swept. A clock that runs fast makes the
// holds short; the rules of an event ask for holds of minutes.
const (
	tortureSpeed     = 400 // seconds of the clock in one
	tortureSeats     = 12  // of each of two events
	tortureCustomers = 32
)

// fastClock runs tortureSpeed times as fast as the real one.
type fastClock struct {
	base, began time.Time
	mu          sync.Mutex
	ahead       time.Duration
}

func (k *fastClock) Now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.base.Add(k.ahead + tortureSpeed*time.Since(k.began)).Truncate(time.Microsecond)
}

func (k *fastClock) forward(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ahead += d
}

// window is a time in which a customer was told that a seat is theirs.
type window struct {
	event       int64
	seat        string
	from, until time.Time
	customer    string
}

// twice returns two windows of one seat that overlap, if there are any.
func twice(all []window) (a, b window, found bool) {
	slices.SortFunc(all, func(a, b window) int {
		if a.event != b.event {
			return int(a.event - b.event)
		}
		return strings.Compare(a.seat, b.seat)*2 + a.from.Compare(b.from)
	})
	var last window
	for _, w := range all {
		if !w.from.Before(w.until) {
			continue
		}
		if w.event == last.event && w.seat == last.seat && w.from.Before(last.until) {
			return last, w, true
		}
		last = w
	}
	return a, b, false
}

func TestTorture_TheLedgerSeesASeatInTwoHands(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	apart := []window{{1, "A1", at(5), at(9), "bob"}, {1, "A1", at(1), at(5), "ann"}, {1, "A2", at(2), at(8), "bob"}, {2, "A1", at(2), at(8), "eve"}, {1, "A1", at(7), at(7), "eve"}}
	if a, b, found := twice(apart); found {
		t.Errorf("%v and %v overlap", a, b)
	}
	if _, _, found := twice(append(apart, window{1, "A2", at(7), at(10), "ann"})); !found {
		t.Error("two customers had one seat at once, and the ledger did not see it")
	}
}

// torture is what the customers share.
type torture struct {
	t     *testing.T
	cores []*booking.Core
	k     *fastClock
	p     *fakeProvider
	pool  *pgxpool.Pool

	mu        sync.Mutex
	did       map[string]int
	confirmed map[uuid.UUID]int      // answers "confirmed", by payment
	late      map[uuid.UUID]bool     // payments that were told to be late
	won       map[uuid.UUID][]string // all holds that were answered as won
	owner     map[uuid.UUID]string   // their customers
	hands     map[uuid.UUID][]string // confirmed and not given back
}

func (s *torture) core() *booking.Core { return s.cores[rand.IntN(len(s.cores))] }

// note counts what happened. An error that no customer should see fails the test.
func (s *torture) note(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pg *pgconn.PgError
	var took *booking.TakenError
	var limit *booking.LimitError
	switch {
	case err == nil:
		s.did[what]++
	case errors.As(err, &pg) && pg.Code == "40P01":
		s.t.Errorf("%s: a deadlock leaked: %v", what, err)
	case errors.As(err, &took), errors.As(err, &limit):
		s.did[what+" lost"]++
	default:
		for _, expected := range []error{booking.ErrHoldGone, booking.ErrHoldExpiring, booking.ErrExtendLimit, booking.ErrConfirmed, booking.ErrBusy} {
			if errors.Is(err, expected) {
				s.did[what+" "+strings.TrimPrefix(expected.Error(), "booking: ")]++
				return
			}
		}
		s.t.Errorf("%s: %v", what, err)
	}
}

// buyer is one customer: what they have in hand, and when it was theirs.
type buyer struct {
	*torture
	name  string
	b     *booking.Booking // in hand; nil = nothing
	paid  bool
	begun time.Time // when b's seats became theirs
	times []window
	n     int
}

// has begins the windows of a booking that is theirs since now.
func (y *buyer) has(b booking.Booking) {
	y.b, y.begun, y.paid = &b, y.k.Now(), false
	y.mu.Lock()
	defer y.mu.Unlock()
	y.won[b.ID], y.owner[b.ID] = b.Seats(), y.name
}

// over ends the windows of what is in hand at an instant, or at the end of its hold.
func (y *buyer) over(at time.Time) {
	if !y.paid && y.b.ExpiresAt.Before(at) {
		at = y.b.ExpiresAt
	}
	for _, seat := range y.b.Seats() {
		y.times = append(y.times, window{y.b.Event, seat, y.begun, at, y.name})
	}
	y.b, y.paid = nil, false
}

func (y *buyer) request() booking.HoldRequest {
	var seats []string
	for _, n := range rand.Perm(tortureSeats)[:1+rand.IntN(3)] {
		seats = append(seats, bookingtest.Seat(0, n))
	}
	r := holdOf(y.name, seats...)
	r.Event += int64(rand.IntN(2))
	if rand.IntN(2) == 0 {
		y.n++
		r.Key = fmt.Sprint("k", y.n)
	}
	return r
}

// act does one thing.
func (y *buyer) act() {
	switch {
	case y.b == nil:
		y.hold(y.request())
	case y.paid:
		y.giveBack()
	default:
		switch n := rand.IntN(100); {
		case n < 20:
			r := y.request()
			r.Event, r.Replaces = y.b.Event, y.b.ID
			y.hold(r)
		case n < 35:
			y.extend()
		case n < 70:
			y.pay()
		case n < 78:
			y.decline()
		case n < 86:
			y.release()
		case n < 92:
			y.cancelHold()
		default:
			y.note("abandon", nil)
			y.over(y.b.ExpiresAt)
		}
	}
}

// hold holds or swaps, and sometimes asks again under the same key.
func (y *buyer) hold(r booking.HoldRequest) {
	what := "hold"
	if r.Replaces != uuid.Nil {
		what = "swap"
	}
	before := y.k.Now()
	b, _, err := y.core().Hold(context.Background(), r)
	y.note(what, err)
	switch {
	case err == nil:
		if y.b != nil {
			y.over(before)
		}
		y.has(b)
	case errors.Is(err, booking.ErrHoldGone), errors.Is(err, booking.ErrBusy): // it ended, or nobody knows
		if y.b != nil {
			y.over(before)
		}
		return
	default:
		time.Sleep(rand.N(4 * time.Millisecond)) // a crowd that only loses would leave no time for the rest
		return
	}
	if r.Key != "" && rand.IntN(3) == 0 {
		same, replayed, err := y.core().Hold(context.Background(), r)
		if y.note("replay", err); err == nil && (!replayed || same.ID != b.ID) {
			y.t.Errorf("key %s of %s: hold %s, then %s, replayed %t", r.Key, y.name, b.ID, same.ID, replayed)
		}
	}
}

func (y *buyer) extend() {
	before := y.k.Now()
	b, err := y.core().Extend(context.Background(), y.b.ID, "", y.name)
	y.note("extend", err)
	switch {
	case err == nil:
		y.b.ExpiresAt = b.ExpiresAt
	case !errors.Is(err, booking.ErrExtendLimit):
		y.over(before)
	}
}

func (y *buyer) checkout() (booking.Checkout, bool) {
	y.n++
	co, err := y.core().Checkout(context.Background(), booking.CheckoutRequest{Admission: booking.Admission{Customer: y.name}, Hold: y.b.ID, Key: fmt.Sprint("p", y.n)})
	y.note("checkout", err)
	if errors.Is(err, booking.ErrHoldGone) {
		y.over(y.b.ExpiresAt)
	}
	return co, err == nil
}

// pay has the provider say three times that money was taken, mostly at once, sometimes too late.
func (y *buyer) pay() {
	co, ok := y.checkout()
	if !ok {
		return
	}
	if rand.IntN(3) == 0 {
		wait := y.b.ExpiresAt.Sub(y.k.Now()) / tortureSpeed
		time.Sleep(max(0, wait-5*time.Millisecond+rand.N(10*time.Millisecond))) // about the end of the hold
	}
	y.p.mu.Lock()
	y.p.becomes[co.PaymentID] = paidWord(co, "")
	y.p.mu.Unlock()
	name := co.PaymentID.String()
	atOnce(3, func(i int) { y.told(paidWord(co, []string{name, name, name + "-2"}[i])) })
	var at uuid.UUID
	var status booking.Status
	err := y.pool.QueryRow(context.Background(), `SELECT booking_id, b.status FROM bk.payment JOIN bk.booking b USING (booking_id) WHERE payment_id = $1`, co.PaymentID).Scan(&at, &status)
	if err != nil {
		y.t.Error(err)
		return
	}
	switch {
	case status != booking.Confirmed:
		y.over(y.b.ExpiresAt)
		return
	case at != y.b.ID: // the late money got its seats back
		again := *y.b
		y.over(y.b.ExpiresAt)
		again.ID = at
		y.has(again)
	}
	y.paid = true
	y.mu.Lock()
	defer y.mu.Unlock()
	y.hands[at] = y.b.Seats()
}

func (y *buyer) told(ev payment.Event) {
	body, err := json.Marshal(ev)
	if err != nil {
		y.t.Error(err)
		return
	}
	var o booking.Outcome
	for range 5 {
		if o, _, err = y.core().Callback(context.Background(), "fake", nil, body); !errors.Is(err, booking.ErrBusy) {
			break
		}
	}
	y.note("callback "+string(o), err)
	y.mu.Lock()
	defer y.mu.Unlock()
	switch o {
	case booking.OutcomeConfirmed:
		y.confirmed[ev.PaymentID]++
	case booking.OutcomeLate:
		y.late[ev.PaymentID] = true
	}
}

func (y *buyer) decline() {
	if co, ok := y.checkout(); ok {
		y.told(payment.Event{ID: co.PaymentID.String(), Kind: payment.Declined, PaymentID: co.PaymentID})
	}
}

func (y *buyer) release() {
	id, before := y.b.ID, y.k.Now()
	y.over(before)
	atOnce(1+rand.IntN(2), func(int) { y.note("release", y.core().Release(context.Background(), id, y.name)) })
}

func (y *buyer) cancelHold() {
	id, before := y.b.ID, y.k.Now()
	y.over(before)
	_, err := y.core().Cancel(context.Background(), id, y.name)
	y.note("cancel hold", err)
}

// giveBack cancels a sale, so that there is something to fight for.
func (y *buyer) giveBack() {
	id, before := y.b.ID, y.k.Now()
	y.over(before)
	b, err := y.core().Cancel(context.Background(), id, y.name)
	y.note("cancel sale", err)
	if err == nil && b.Status != booking.Cancelled {
		y.t.Errorf("cancelled sale %s is %s", id, b.Status)
	}
	if err == nil {
		y.mu.Lock()
		defer y.mu.Unlock()
		delete(y.hands, id)
	}
}

// tortureFor is how long it lasts: ROPELINE_TORTURE, or 10 s.
func tortureFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ROPELINE_TORTURE")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ROPELINE_TORTURE: %v", err)
	}
	return d
}

func TestTorture_EverythingAtOnceOnTwoNodesSellsNoSeatTwice(t *testing.T) {
	url := bookingtest.Database(t)
	for i, late := range []string{"refund", "reacquire"} {
		bookingtest.Open(t, url, bookingtest.Sale{Event: 42 + int64(i), Rows: 1, PerRow: tortureSeats, Hold: 120 * time.Second, Checkout: 80 * time.Second, MaxSeats: 3, Cap: 4 * (1 - i), Late: late})
	}
	k := &fastClock{base: time.Now().UTC(), began: time.Now()}
	p := newFakeProvider()
	cores, end := closingNodes(t, url, 2, booking.Config{Now: k.Now, Providers: []payment.Provider{p}, Feed: true, SweepEvery: 30 * time.Millisecond, AuditEvery: -1, ReconcileAfter: 100 * time.Second})
	s := &torture{t: t, cores: cores, k: k, p: p, pool: wide(t, url, 8), did: map[string]int{}, confirmed: map[uuid.UUID]int{},
		late: map[uuid.UUID]bool{}, won: map[uuid.UUID][]string{}, owner: map[uuid.UUID]string{}, hands: map[uuid.UUID][]string{}}
	ctx, stop := context.WithTimeout(context.Background(), tortureFor(t))
	defer stop()
	var work sync.WaitGroup
	for _, c := range cores {
		work.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
		work.Go(func() { // more often than Run does
			for ctx.Err() == nil {
				s.note("reconcile", c.Reconcile(context.Background()))
				s.note("send refunds", c.SendRefunds(context.Background()))
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	buyers := make([]*buyer, tortureCustomers)
	for i := range buyers {
		buyers[i] = &buyer{torture: s, name: fmt.Sprint("c", i)}
		work.Go(func() {
			for ctx.Err() == nil {
				buyers[i].act()
			}
		})
	}
	work.Wait()
	s.settle()
	s.judge(buyers)
	end()
	if n := deadlocks(t, url); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	t.Logf("%v", s.did)
}

// settle lets everything that was left lying end.
func (s *torture) settle() {
	s.k.forward(time.Hour)
	ctx, c := context.Background(), s.cores[0]
	for range 8 { // 100 payments in one round, put off longer each time
		if err := errors.Join(c.Sweep(ctx), c.Reconcile(ctx), c.Hurry(ctx), c.SendRefunds(ctx)); err != nil {
			s.t.Error(err)
		}
	}
	open := func() bool {
		if err := errors.Join(c.Reconcile(ctx), c.SendRefunds(ctx)); err != nil {
			s.t.Fatal(err)
		}
		s.k.forward(time.Hour)
		return one[int](s.t, s.pool, `SELECT (SELECT count(*) FROM bk.payment WHERE status IN ('PENDING','REFUND_DUE')) + (SELECT count(*) FROM bk.booking WHERE status = 'HOLD')`) == 0
	}
	for round := 0; !open(); round++ {
		if round == 50 {
			s.t.Fatalf("left open:\n%s", s.leftOpen())
		}
	}
	clean(s.t, c)
}

// leftOpen tells what settle waits for in vain.
func (s *torture) leftOpen() string {
	return one[string](s.t, s.pool, `
SELECT coalesce(string_agg(concat_ws(' ', p.payment_id, p.status, p.provider, b.event_id, b.status, b.replaces, r.status, r.last_error), E'\n'), '')
  FROM bk.payment p JOIN bk.booking b USING (booking_id) LEFT JOIN bk.refund r USING (payment_id) WHERE p.status IN ('PENDING','REFUND_DUE') OR b.status = 'HOLD'`)
}

// judge holds what the customers were told against each other and against the database.
func (s *torture) judge(buyers []*buyer) {
	t := s.t
	var all []window
	for _, y := range buyers {
		if y.b != nil {
			y.over(s.k.Now())
		}
		all = append(all, y.times...)
	}
	if a, b, found := twice(all); found {
		t.Errorf("two had one seat at once: %+v and %+v", a, b)
	}
	for id, n := range s.confirmed {
		if n != 1 {
			t.Errorf("payment %s was answered as confirmed %d times", id, n)
		}
	}
	rows, err := s.pool.Query(context.Background(), `SELECT booking_id, customer, items, status FROM bk.booking`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := map[uuid.UUID]booking.Status{}
	for rows.Next() {
		var id uuid.UUID
		var customer string
		var items []string
		var status booking.Status
		if err := rows.Scan(&id, &customer, &items, &status); err != nil {
			t.Fatal(err)
		}
		there[id] = status
		if seats, told := s.won[id]; told && (s.owner[id] != customer || !slices.Equal(seats, items)) {
			t.Errorf("booking %s is of %v by %s, its customer %s was told of %v", id, items, customer, s.owner[id], seats)
		}
		if _, inHand := s.hands[id]; inHand != (status == booking.Confirmed) {
			t.Errorf("booking %s is %s, and in the customer's hand: %t", id, status, inHand)
		}
	}
	for id := range s.won {
		if _, ok := there[id]; !ok {
			t.Errorf("hold %s was answered as won, and there is none", id)
		}
	}
	for id := range s.late {
		if n, _ := refunds(t, s.pool, id); n != 1 {
			t.Errorf("payment %s was late, and has %d refunds", id, n)
		}
	}
	if due := one[int64](t, s.pool, `SELECT coalesce(sum(amount_minor), 0)::bigint FROM bk.refund`); due != s.p.total() {
		t.Errorf("the provider gave %d back, %d were due", s.p.total(), due)
	}
	taken := one[int64](t, s.pool, `SELECT coalesce(sum(captured_minor), 0)::bigint FROM bk.payment`)
	kept := one[int64](t, s.pool, `SELECT coalesce(sum(amount_minor), 0)::bigint FROM bk.booking WHERE status = 'CONFIRMED'`)
	if taken != kept+s.p.total() {
		t.Errorf("%d taken, %d kept for sales, %d given back", taken, kept, s.p.total())
	}
	if n := one[int](t, s.pool, `SELECT count(*) FROM bk.seat WHERE status NOT IN ('AVAILABLE','SOLD')`); n != 0 {
		t.Errorf("%d seats are held by nobody", n)
	}
	for _, what := range []string{"hold", "hold lost", "swap", "extend", "callback confirmed", "callback duplicate", "callback late_refund", "callback declined", "release", "cancel hold", "cancel sale", "replay"} {
		if s.did[what] == 0 {
			t.Errorf("it never came to %q: %v", what, s.did)
		}
	}
}
