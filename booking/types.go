package booking

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Admission is who asks, as the gate in front says. The zero value is a customer whom no waiting room let in.
type Admission struct {
	Room     string // id of the waiting room whose access token came along; "" = none
	Customer string // 1 to 200 bytes; never taken from what a client says of itself
	Session  string // what the room needs to take the slot back; opaque here
	Channels Channels
}

// Channels is the set of sales channels whose seats a customer may hold: bit n stands for channel n, 0 to 62. The zero value
// is channel 0 alone, the public one.
type Channels uint64

// Mask is the set with its default filled in.
func (c Channels) Mask() int64 {
	if c == 0 {
		return 1
	}
	return int64(c &^ (1 << 63))
}

// Money is an amount in the currency's minor unit (cents, or whole dong).
type Money struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"` // ISO 4217
}

// Choice is one seat that somebody asks for.
type Choice struct {
	Seat       string
	TicketType string // "" = standard
}

// HoldRequest asks for all of some seats or none.
type HoldRequest struct {
	Admission
	Event    int64
	Choices  []Choice  // without duplicates; in any order
	Key      string    // Idempotency-Key, 1 to 64 bytes; "" = none
	Replaces uuid.UUID // a live hold of the same customer that is given up in the same step; zero = none
}

// Status of a booking.
type Status string

// The life of a booking.
const (
	Held      Status = "HOLD"
	Confirmed Status = "CONFIRMED"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED"
	Failed    Status = "FAILED" // paid too late, or the wrong amount: refunded
)

// Booking is a hold, an order or a booking: the same row at different times.
type Booking struct {
	ID        uuid.UUID
	Event     int64
	Customer  string
	Room      string
	Status    Status // a hold whose time is up reads as Expired, whether or not anybody has cleaned it up
	Items     []Item
	Amount    Money
	CreatedAt time.Time
	ExpiresAt time.Time // of the hold
	Now       time.Time // the database's clock when this was read
	Payments  []Payment // oldest first; only where [Core.Booking] or [Core.Cancel] read it
}

// Item is one seat of a booking.
type Item struct {
	Seat       string
	Tier       string
	TicketType string
	Amount     int64 // minor units
}

// Seats are the codes of the items.
func (b Booking) Seats() []string {
	out := make([]string, len(b.Items))
	for i, it := range b.Items {
		out[i] = it.Seat
	}
	return out
}

// Payment is one attempt to pay for a booking.
type Payment struct {
	ID      uuid.UUID
	Status  string // PENDING SUCCEEDED DECLINED EXPIRED REFUND_DUE REFUNDED
	Amount  Money
	Refunds []Refund
}

// Refund is money on its way back.
type Refund struct {
	ID     uuid.UUID
	Reason string // late_or_mismatch, second_payment, customer_cancel
	Amount int64
	Status string // DUE SENT DONE FAILED
}

// CheckoutRequest opens a payment page for a hold.
type CheckoutRequest struct {
	Admission
	Hold      uuid.UUID
	Key       string // Idempotency-Key of this attempt to pay; required
	ReturnURL string // where the page sends the customer afterwards; "" = nowhere
}

// Checkout is an open payment page.
type Checkout struct {
	PaymentID uuid.UUID
	URL       string
	Amount    Money
	PayBy     time.Time // after this the page is closed
	Now       time.Time
	Replayed  bool // the same key opened it before
}

// Outcome is what a provider's callback did.
type Outcome string

// Outcomes of a callback.
const (
	OutcomeConfirmed Outcome = "confirmed"
	OutcomeLate      Outcome = "late_refund"     // the hold was gone, or another payment had counted: one refund
	OutcomeMismatch  Outcome = "amount_mismatch" // not the amount or the currency that was asked: one refund
	OutcomeDuplicate Outcome = "duplicate"       // already applied
	OutcomeDeclined  Outcome = "declined"        // the hold stays; another attempt is welcome
	OutcomeExpired   Outcome = "expired"         // the payment page ended unpaid
	OutcomeRefunded  Outcome = "refunded"        // the provider says that the money is back
	OutcomeIgnored   Outcome = "ignored"         // of a kind that means nothing here
)

// Expected answers. They are matched, not logged.
var (
	ErrNoEvent         = errors.New("booking: no such event")
	ErrNotAdmitted     = errors.New("booking: not admitted")           // no access token of a room of the event
	ErrNoBooking       = errors.New("booking: no such booking")        // or another customer's
	ErrNotOnSale       = errors.New("booking: not on sale")            // now
	ErrHoldGone        = errors.New("booking: hold gone")              // expired, released or swapped
	ErrHoldExpiring    = errors.New("booking: hold expiring")          // too little time left to pay; extending may help
	ErrExtendLimit     = errors.New("booking: hold can't be extended") // it is as old as the event allows
	ErrConfirmed       = errors.New("booking: already confirmed")
	ErrNotCancellable  = errors.New("booking: can't be cancelled")
	ErrKeyReuse        = errors.New("booking: key used for another request")
	ErrKeyMissing      = errors.New("booking: key missing")
	ErrBusy            = errors.New("booking: busy") // a lock or a connection was not to be had in time; try again
	ErrAway            = errors.New("booking: Postgres away")
	ErrNoProvider      = errors.New("booking: no payment provider")
	ErrProvider        = errors.New("booking: payment provider failed") // nothing was lost; try again
	ErrUnknownPayment  = errors.New("booking: unknown payment")         // nothing was recorded: the provider should call again
	ErrBadCallback     = errors.New("booking: callback not genuine")
	ErrCustomerMissing = errors.New("booking: no customer")
)

// TakenError says that seats are not free.
type TakenError struct {
	Event     int64
	Asked     []string // all that were asked for
	Conflicts []string // those of them that are taken
}

// Error is the sentence of the API's error member.
func (e *TakenError) Error() string {
	return fmt.Sprintf("Seats [%s] of event %d are not available", strings.Join(e.Asked, ", "), e.Event)
}

// InvalidError says that a request asks for what can't be: an unknown or repeated seat, none or too many of them, a ticket
// type that the event doesn't sell.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "booking: " + e.Reason }

// LimitError says that a customer has had as much as the event allows.
type LimitError struct {
	Cap   int           // seats, live and sold; 0 if it is the rate of holds that was exceeded
	Retry time.Duration // when another hold may be tried; 0 with Cap
}

func (e *LimitError) Error() string {
	if e.Cap > 0 {
		return fmt.Sprintf("booking: customer cap of %d seats", e.Cap)
	}
	return "booking: too many holds, wait " + e.Retry.String()
}

// Event is what is on sale. It must not be changed.
type Event struct {
	ID          int64
	Kind        string // showtime concert room
	Map         int64  // 0 = none
	Name        string
	StartsAt    time.Time
	Zone        string // IANA name
	Currency    string
	Status      string    // DRAFT ON_SALE PAUSED CLOSED CANCELLED
	OpensAt     time.Time // zero: always was
	ClosesAt    time.Time // zero: never
	HoldTTL     time.Duration
	CheckoutTTL time.Duration
	MaxHoldAge  time.Duration
	MaxSeats    int
	CustomerCap int // 0 = none
	HoldsPerMin int // 0 = no limit
	RedisGate   bool
	Rooms       []string // waiting rooms that lead to it; none: no token is asked for
	LatePolicy  string   // refund reacquire
	Prices      []Price
	layout      *Layout
	prices      map[[2]string]int64 // tier, ticket type
	loaded      time.Time
}

// Price of a ticket.
type Price struct {
	Tier, TicketType string
	Amount           int64
}

// Layout is the seats of a hall. It must not be changed.
type Layout struct {
	Map   int64
	Name  string
	Seats []LayoutSeat // by section, row and position
	index map[string]int32
}

// LayoutSeat is where a seat stands.
type LayoutSeat struct {
	Code       string   `json:"seat"`
	Section    string   `json:"section"`
	Row        string   `json:"row"`
	Pos        int      `json:"pos"`
	Tier       string   `json:"tier"`
	Rank       int      `json:"rank"`
	X          *float32 `json:"x,omitempty"`
	Y          *float32 `json:"y,omitempty"`
	Accessible bool     `json:"accessible,omitempty"`
}
