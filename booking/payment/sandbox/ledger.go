package sandbox

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/payment"
)

// mostPayments is how many payments are remembered; the oldest are forgotten first.
const mostPayments = 100_000

// Refusals of the ledger.
var (
	errUnknown  = errors.New("no such payment")
	errReuse    = errors.New("this id was used for something else")
	errTooMuch  = errors.New("more than was taken and not given back")
	errNotOpen  = errors.New("the page is not open")
	errNotOrder = errors.New("an order has paymentId, an amount above 0 and a currency of three capital letters")
)

// Payment is one payment as the server knows it.
type Payment struct {
	Order            payment.Order
	Status           string // open paid declined closed
	Captured         int64  // minor units that were taken, which need not be what the order asks for
	CapturedCurrency string
	Refunds          []Refund
	At               time.Time // of the last change
}

// ID is the payment's id.
func (p *Payment) ID() uuid.UUID { return p.Order.PaymentID }

// Returned is what was given back or is on its way, in minor units.
func (p *Payment) Returned() int64 {
	var sum int64
	for _, r := range p.Refunds {
		if r.Status != refundTried {
			sum += r.Amount
		}
	}
	return sum
}

func (p *Payment) charge() string {
	if p.Captured == 0 {
		return ""
	}
	return "sbc_" + p.ID().String()
}

func (p *Payment) data() data {
	return data{PaymentID: p.ID(), Amount: p.Captured, Currency: p.CapturedCurrency, Charge: p.charge()}
}

// ledger is all payments. Its owner locks it.
type ledger struct {
	payments map[uuid.UUID]*Payment
	order    []uuid.UUID // oldest first
	refunds  map[uuid.UUID]uuid.UUID
}

func newLedger() *ledger {
	return &ledger{payments: map[uuid.UUID]*Payment{}, refunds: map[uuid.UUID]uuid.UUID{}}
}

// put adds a payment, or the newer state of one.
func (l *ledger) put(p *Payment) {
	if l.payments[p.ID()] == nil {
		l.order = append(l.order, p.ID())
	}
	l.payments[p.ID()] = p
	for _, r := range p.Refunds {
		l.refunds[r.ID] = p.ID()
	}
	for len(l.order) > mostPayments {
		l.forget(l.order[0])
		l.order = l.order[1:]
	}
}

func (l *ledger) forget(id uuid.UUID) {
	for _, r := range l.payments[id].Refunds {
		delete(l.refunds, r.ID)
	}
	delete(l.payments, id)
}

// start opens the page of o, or finds it.
func (l *ledger) start(o payment.Order, now time.Time) (p *Payment, isNew bool, err error) {
	if o.PaymentID == uuid.Nil || o.Amount <= 0 || !currency(o.Currency) {
		return nil, false, errNotOrder
	}
	if p := l.payments[o.PaymentID]; p != nil {
		if !sameSale(p.Order, o) {
			return nil, false, errReuse
		}
		return p, false, nil
	}
	p = &Payment{Order: o, Status: open, At: now}
	l.put(p)
	return p, true, nil
}

// capture takes the money of an open page, in whatever amount.
func (l *ledger) capture(p *Payment, amount int64, currency string, now time.Time) error {
	if p.Status != open {
		return errNotOpen
	}
	p.Status, p.Captured, p.CapturedCurrency, p.At = paid, amount, currency, now
	return nil
}

// end closes an open page without money.
func (l *ledger) end(p *Payment, status string, now time.Time) error {
	if p.Status != open {
		return errNotOpen
	}
	p.Status, p.At = status, now
	return nil
}

// refund gives back r, once per id.
func (l *ledger) refund(r Refund, status string) (got Refund, p *Payment, isNew bool, err error) {
	if of, known := l.refunds[r.ID]; known {
		if of != r.PaymentID {
			return Refund{}, nil, false, errReuse
		}
		p := l.payments[of]
		for _, before := range p.Refunds {
			if before.ID == r.ID && before.Amount == r.Amount && before.Currency == r.Currency {
				return before, p, false, nil
			}
		}
		return Refund{}, nil, false, errReuse
	}
	p = l.payments[r.PaymentID]
	if p == nil {
		return Refund{}, nil, false, errUnknown
	}
	if r.ID == uuid.Nil || r.Amount <= 0 || r.Currency != p.CapturedCurrency || r.Amount > p.Captured-p.Returned() {
		return Refund{}, nil, false, errTooMuch
	}
	r.Ref, r.Status = "sbr_"+r.ID.String(), status
	p.Refunds = append(p.Refunds, r)
	l.refunds[r.ID] = p.ID()
	return r, p, true, nil
}

// sameSale tells whether two orders ask for the same money for the same thing.
func sameSale(a, b payment.Order) bool {
	return a.BookingID == b.BookingID && a.Amount == b.Amount && a.Currency == b.Currency
}

// currency tells whether s looks like one of ISO 4217.
func currency(s string) bool {
	if len(s) != 3 {
		return false
	}
	for _, c := range s {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
