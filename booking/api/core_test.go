package api

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"ropeline/booking"
)

// fakeCore is a booking core in memory: it sells each seat once, and says whatever error a test wants of it.
type fakeCore struct {
	mu       sync.Mutex
	now      time.Time
	events   map[int64]*booking.Event
	taken    map[string]bool
	bookings map[uuid.UUID]booking.Booking
	byKey    map[string]uuid.UUID
	fail     error // of every method
	seatMap  booking.SeatMap

	holds     []booking.HoldRequest
	checkouts []booking.CheckoutRequest
	callbacks []string // provider and body
	extended  []string // keys
	outcome   booking.Outcome
	calls     int
}

func newFakeCore() *fakeCore {
	now := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	event := func(id int64, rooms ...string) *booking.Event {
		return &booking.Event{
			ID: id, Kind: "concert", Map: 1, Name: "Spring <Tour>", StartsAt: now.Add(72 * time.Hour), Zone: "Asia/Ho_Chi_Minh", Currency: "VND",
			Status: "ON_SALE", HoldTTL: 5 * time.Minute, CheckoutTTL: 4 * time.Minute, MaxHoldAge: 15 * time.Minute, MaxSeats: 4, CustomerCap: 4,
			Rooms: rooms, Prices: []booking.Price{{Tier: "VIP", TicketType: "standard", Amount: 3000000}},
		}
	}
	draft := event(9)
	draft.Status = "DRAFT"
	return &fakeCore{
		now:    now,
		events: map[int64]*booking.Event{1: event(1), 42: event(42, "spring-tour", "vip"), 9: draft},
		taken:  map[string]bool{}, bookings: map[uuid.UUID]booking.Booking{}, byKey: map[string]uuid.UUID{},
		seatMap: booking.SeatMap{
			ETag: `"one"`, JSON: []byte(`{"eventId":42,"seats":{"F5":"SOLD","F6":"HELD","F7":"AVAILABLE"},"free":1,"held":1,"sold":1}`),
			Free: 1, Held: 1, Sold: 1,
		},
		outcome: booking.OutcomeConfirmed,
	}
}

func (f *fakeCore) begin() func() {
	f.mu.Lock()
	f.calls++
	return f.mu.Unlock
}

func (f *fakeCore) Event(_ context.Context, id int64) (*booking.Event, error) {
	defer f.begin()()
	if f.fail != nil {
		return nil, f.fail
	}
	if e := f.events[id]; e != nil {
		return e, nil
	}
	return nil, booking.ErrNoEvent
}

var hall = &booking.Layout{Map: 1, Name: "Nhà hát lớn", Seats: []booking.LayoutSeat{
	{Code: "F5", Section: "A", Row: "F", Pos: 5, Tier: "VIP"}, {Code: "F6", Section: "A", Row: "F", Pos: 6, Tier: "VIP", Accessible: true},
}}

func (f *fakeCore) Layout(context.Context, int64) (*booking.Layout, error) {
	defer f.begin()()
	return hall, f.fail
}

func (f *fakeCore) SeatMap(_ context.Context, _ int64, compat bool) (*booking.SeatMap, error) {
	defer f.begin()()
	m := f.seatMap
	if compat {
		m.JSON, m.ETag = []byte(`{"eventId":42,"seats":{"F5":"BOOKED"},"free":0,"held":0,"sold":1}`), `"two"`
	}
	return &m, f.fail
}

func (f *fakeCore) Hold(_ context.Context, r booking.HoldRequest) (booking.Booking, bool, error) {
	defer f.begin()()
	f.holds = append(f.holds, r)
	if f.fail != nil {
		return booking.Booking{}, false, f.fail
	}
	if id, ok := f.byKey[r.Customer+" "+r.Key]; ok && r.Key != "" {
		return f.bookings[id], true, nil
	}
	taken := &booking.TakenError{Event: r.Event}
	b := booking.Booking{
		ID: uuid.New(), Event: r.Event, Customer: r.Customer, Room: r.Room, Status: booking.Held, CreatedAt: f.now, ExpiresAt: f.now.Add(5*time.Minute + 500*time.Millisecond),
		Now: f.now, Amount: booking.Money{Currency: "VND"},
	}
	for _, c := range r.Choices {
		taken.Asked = append(taken.Asked, c.Seat)
		if f.taken[c.Seat] {
			taken.Conflicts = append(taken.Conflicts, c.Seat)
		}
		b.Items = append(b.Items, booking.Item{Seat: c.Seat, Tier: "VIP", TicketType: firstOf(c.TicketType, "standard"), Amount: 3000000})
		b.Amount.Amount += 3000000
	}
	if len(taken.Conflicts) > 0 {
		return booking.Booking{}, false, taken
	}
	for _, c := range r.Choices {
		f.taken[c.Seat] = true
	}
	f.bookings[b.ID], f.byKey[r.Customer+" "+r.Key] = b, b.ID
	return b, false, nil
}

func (f *fakeCore) own(id uuid.UUID, customers []string) (booking.Booking, error) {
	if f.fail != nil {
		return booking.Booking{}, f.fail
	}
	b, ok := f.bookings[id]
	if !ok || !slices.Contains(customers, b.Customer) {
		return booking.Booking{}, booking.ErrNoBooking
	}
	return b, nil
}

func (f *fakeCore) Booking(_ context.Context, id uuid.UUID, customers ...string) (booking.Booking, error) {
	defer f.begin()()
	return f.own(id, customers)
}

func (f *fakeCore) Extend(_ context.Context, id uuid.UUID, key string, customers ...string) (booking.Booking, error) {
	defer f.begin()()
	f.extended = append(f.extended, key)
	b, err := f.own(id, customers)
	if err == nil && b.Status != booking.Held {
		err = booking.ErrHoldGone
	}
	return b, err
}

func (f *fakeCore) Release(_ context.Context, id uuid.UUID, customers ...string) error {
	defer f.begin()()
	b, err := f.own(id, customers)
	if err == nil && b.Status == booking.Confirmed {
		err = booking.ErrConfirmed
	}
	if err == nil {
		b.Status = booking.Cancelled
		f.bookings[id] = b
	}
	return err
}

func (f *fakeCore) Checkout(_ context.Context, r booking.CheckoutRequest) (booking.Checkout, error) {
	defer f.begin()()
	f.checkouts = append(f.checkouts, r)
	b, err := f.own(r.Hold, []string{r.Customer})
	again := slices.ContainsFunc(f.checkouts[:len(f.checkouts)-1], func(c booking.CheckoutRequest) bool { return c.Key == r.Key })
	return booking.Checkout{
		PaymentID: uuid.NewSHA1(uuid.Nil, []byte(r.Key)), URL: "http://127.0.0.1:8091/pay/1", Amount: b.Amount, PayBy: f.now.Add(4 * time.Minute), Now: f.now, Replayed: again,
	}, err
}

func (f *fakeCore) Cancel(_ context.Context, id uuid.UUID, customers ...string) (booking.Booking, error) {
	defer f.begin()()
	b, err := f.own(id, customers)
	if err != nil {
		return b, err
	}
	if b.Status == booking.Confirmed {
		b.Payments = []booking.Payment{{
			ID: uuid.New(), Status: "REFUND_DUE", Amount: b.Amount,
			Refunds: []booking.Refund{{ID: uuid.New(), Reason: "customer_cancel", Amount: b.Amount.Amount, Status: "DUE"}},
		}}
	}
	b.Status = booking.Cancelled
	f.bookings[id] = b
	return b, nil
}

func (f *fakeCore) Callback(_ context.Context, provider string, _ http.Header, body []byte) (booking.Outcome, uuid.UUID, error) {
	defer f.begin()()
	f.callbacks = append(f.callbacks, provider+" "+string(body))
	return f.outcome, uuid.Max, f.fail
}

func (f *fakeCore) Confirm(_ context.Context, id, payment uuid.UUID) (booking.Booking, booking.Outcome, error) {
	defer f.begin()()
	b := f.bookings[id]
	b.Payments = append(b.Payments, booking.Payment{ID: payment, Status: "REFUND_DUE", Amount: b.Amount})
	if f.outcome == booking.OutcomeConfirmed {
		b.Status, b.Payments[0].Status = booking.Confirmed, "SUCCEEDED"
		f.bookings[id] = b
	}
	if f.outcome == booking.OutcomeIgnored {
		b.Payments[0].Status = "PENDING"
	}
	return b, f.outcome, f.fail
}

func (k knows) Event(context.Context, int64) (*booking.Event, error) { return k.event, nil }

// failingCheckout is a core that opens no payment page.
type failingCheckout struct {
	*fakeCore
	err error
}

func (f failingCheckout) Checkout(context.Context, booking.CheckoutRequest) (booking.Checkout, error) {
	return booking.Checkout{}, f.err
}
