package api

import (
	"time"

	"ropeline/booking"
)

// deadline is what every answer carries that is good for a time. Clients count down from expiresInSeconds, so that a wrong
// clock of theirs can't lie.
type deadline struct {
	ExpiresAt        time.Time `json:"expiresAt"`
	ExpiresInSeconds int64     `json:"expiresInSeconds"` // whole seconds, rounded down; 0 = over
	ServerTime       time.Time `json:"serverTime"`
}

func deadlineOf(end, now time.Time) deadline {
	return deadline{ExpiresAt: instant(end), ExpiresInSeconds: int64(max(0, end.Sub(now)) / time.Second), ServerTime: instant(now)}
}

// instant is how times are told: UTC, to the millisecond.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

type itemBody struct {
	Seat       string        `json:"seat"`
	Tier       string        `json:"tier"`
	TicketType string        `json:"ticketType"`
	Price      booking.Money `json:"price"`
}

func itemsOf(b booking.Booking) []itemBody {
	all := make([]itemBody, len(b.Items))
	for i, it := range b.Items {
		all[i] = itemBody{it.Seat, it.Tier, it.TicketType, booking.Money{Amount: it.Amount, Currency: b.Amount.Currency}}
	}
	return all
}

type holdBody struct {
	HoldID  string         `json:"holdId"`
	EventID int64          `json:"eventId"`
	Status  booking.Status `json:"status"`
	Seats   []string       `json:"seats"`
	Items   []itemBody     `json:"items"`
	Amount  booking.Money  `json:"amount"`
	deadline
}

func holdOf(b booking.Booking) holdBody {
	return holdBody{
		HoldID: b.ID.String(), EventID: b.Event, Status: b.Status, Seats: b.Seats(), Items: itemsOf(b), Amount: b.Amount,
		deadline: holdDeadline(b),
	}
}

// holdDeadline is the hold's; once it has ended, one way or the other, no time is left of it.
func holdDeadline(b booking.Booking) deadline {
	d := deadlineOf(b.ExpiresAt, b.Now)
	if b.Status != booking.Held {
		d.ExpiresInSeconds = 0
	}
	return d
}

type checkoutBody struct {
	PaymentID   string        `json:"paymentId"`
	CheckoutURL string        `json:"checkoutUrl,omitempty"` // none: it costs nothing and is confirmed
	Amount      booking.Money `json:"amount"`
	PayBy       time.Time     `json:"payBy"`
	deadline
}

func checkoutOf(c booking.Checkout) checkoutBody {
	return checkoutBody{
		PaymentID: c.PaymentID.String(), CheckoutURL: c.URL, Amount: c.Amount, PayBy: instant(c.PayBy),
		deadline: deadlineOf(c.PayBy, c.Now),
	}
}

type callbackBody struct {
	Outcome   booking.Outcome `json:"outcome"`
	BookingID string          `json:"bookingId,omitempty"`
}

type refundBody struct {
	RefundID  string        `json:"refundId"`
	PaymentID string        `json:"paymentId"`
	Reason    string        `json:"reason"`
	Amount    booking.Money `json:"amount"`
	Status    string        `json:"status"`
}

type paymentBody struct {
	PaymentID string        `json:"paymentId"`
	Status    string        `json:"status"`
	Amount    booking.Money `json:"amount"`
	Refunds   []refundBody  `json:"refunds"`
}

type bookingBody struct {
	BookingID string          `json:"bookingId"`
	OrderID   string          `json:"orderId,omitempty"` // the same id, for clients that say order
	EventID   int64           `json:"eventId"`
	Status    string          `json:"status"`
	Outcome   booking.Outcome `json:"outcome,omitempty"` // of the confirm routes: what the payment did
	Seats     []string        `json:"seats"`
	Items     []itemBody      `json:"items"`
	Amount    booking.Money   `json:"amount"`
	CreatedAt time.Time       `json:"createdAt"`
	Payments  []paymentBody   `json:"payments"`
	Refund    *refundBody     `json:"refund,omitempty"` // the newest one
	deadline
}

func bookingOf(b booking.Booking, w words) bookingBody {
	body := bookingBody{
		BookingID: b.ID.String(), EventID: b.Event, Status: w.status(b.Status), Seats: b.Seats(), Items: itemsOf(b), Amount: b.Amount,
		CreatedAt: instant(b.CreatedAt), Payments: []paymentBody{}, deadline: holdDeadline(b),
	}
	if w.older {
		body.OrderID = body.BookingID
	}
	for _, p := range b.Payments {
		paid := paymentBody{PaymentID: p.ID.String(), Status: p.Status, Amount: p.Amount, Refunds: []refundBody{}}
		for _, r := range p.Refunds {
			back := refundBody{
				RefundID: r.ID.String(), PaymentID: p.ID.String(), Reason: r.Reason,
				Amount: booking.Money{Amount: r.Amount, Currency: p.Amount.Currency}, Status: r.Status,
			}
			paid.Refunds, body.Refund = append(paid.Refunds, back), &back
		}
		body.Payments = append(body.Payments, paid)
	}
	return body
}
