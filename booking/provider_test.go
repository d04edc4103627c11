package booking_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"ropeline/booking"
	"ropeline/booking/payment"
)

// fakeProvider is a provider whose word is law: a test says what it tells. Its callbacks are the event as JSON.
type fakeProvider struct {
	mu      sync.Mutex
	started map[uuid.UUID]payment.Order
	closed  map[uuid.UUID]bool
	becomes map[uuid.UUID]payment.Event // what Look answers
	refunds map[uuid.UUID]int           // times that each refund was asked for
	moved   map[uuid.UUID]int64         // money that went back, by refund: the first ask moves it
	deaf    int                         // refunds that are done but whose answer is lost
	broken  error                       // what every call answers
}

func newFakeProvider() *fakeProvider {
	return &fakeProvider{
		started: map[uuid.UUID]payment.Order{}, closed: map[uuid.UUID]bool{}, becomes: map[uuid.UUID]payment.Event{},
		refunds: map[uuid.UUID]int{}, moved: map[uuid.UUID]int64{},
	}
}

func (f *fakeProvider) Name() string { return "fake" }

func (f *fakeProvider) Start(_ context.Context, o payment.Order) (payment.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started[o.PaymentID] = o
	return payment.Page{Ref: "page-" + o.PaymentID.String(), URL: "https://pay.example/" + o.PaymentID.String()}, f.broken
}

func (f *fakeProvider) Close(_ context.Context, r payment.Ref) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.started[r.PaymentID]; !ok {
		return payment.ErrUnknown
	}
	f.closed[r.PaymentID] = true
	return f.broken
}

func (f *fakeProvider) Look(_ context.Context, r payment.Ref) (payment.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.started[r.PaymentID]; !ok {
		return payment.Event{}, payment.ErrUnknown
	}
	ev, ok := f.becomes[r.PaymentID]
	switch {
	case ok:
	case f.closed[r.PaymentID]:
		ev = payment.Event{Kind: payment.Expired}
	default:
		ev = payment.Event{Kind: payment.Pending}
	}
	ev.PaymentID, ev.ID = r.PaymentID, payment.LookID(r.PaymentID, ev.Kind)
	return ev, f.broken
}

func (f *fakeProvider) Refund(_ context.Context, r payment.Refund) (payment.RefundState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return payment.RefundState{}, f.broken
	}
	f.refunds[r.ID]++
	f.moved[r.ID] = r.Amount
	if f.deaf > 0 {
		f.deaf--
		return payment.RefundState{}, errors.New("the answer was lost")
	}
	return payment.RefundState{Ref: "back-" + r.ID.String(), Done: true}, nil
}

func (f *fakeProvider) Read(_ http.Header, body []byte) (ev payment.Event, err error) {
	if json.Unmarshal(body, &ev) != nil {
		return ev, payment.ErrNotGenuine
	}
	return ev, nil
}

// total is all the money that went back.
func (f *fakeProvider) total() (sum int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.moved {
		sum += n
	}
	return sum
}

// tell delivers an event to the core, as a callback.
func tell(t testing.TB, c *booking.Core, ev payment.Event) (booking.Outcome, error) {
	t.Helper()
	body, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := c.Callback(context.Background(), "fake", nil, body)
	return o, err
}

// paidWord is the provider's word that a checkout was paid, as its event of that name.
func paidWord(co booking.Checkout, name string) payment.Event {
	return payment.Event{ID: name, Kind: payment.Paid, PaymentID: co.PaymentID, Amount: co.Amount.Amount, Currency: co.Amount.Currency, Charge: "ch-" + name}
}

// checkout opens a payment page for a hold, or ends the test.
func checkout(t testing.TB, c *booking.Core, b booking.Booking, key string) booking.Checkout {
	t.Helper()
	co, err := c.Checkout(context.Background(), booking.CheckoutRequest{Admission: booking.Admission{Customer: b.Customer}, Hold: b.ID, Key: key})
	if err != nil {
		t.Fatalf("checkout of %s: %v", b.ID, err)
	}
	return co
}
