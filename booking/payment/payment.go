// Package payment is what the booking core asks of a payment provider, and nothing of any one provider.
//
// A payment is known by our own id from before the provider hears of it. Money is taken on the provider's page, never here,
// and what the provider says of it arrives by callback ([Provider.Read]) or by asking ([Provider.Look]); both give an [Event].
// Each call may be repeated: a page is opened once per payment, and money goes back once per refund id.
package payment

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// Provider takes money and gives it back. Its methods are safe for concurrent use and end when ctx does. Errors that wrap
// [Permanent] stay as they are when the call is repeated; all others may pass.
type Provider interface {
	// Name is the provider in the path of its callback and in the provider column: lower-case letters, never empty.
	Name() string

	// Start opens the page on which o is paid. o.PaymentID is the key: a second call gives the same page.
	Start(ctx context.Context, o Order) (Page, error)

	// Close ends the page of ref, so that no money can come in by it any more. It returns nil for a page that ended or was
	// paid before, and [ErrUnknown] for a payment that the provider never heard of.
	Close(ctx context.Context, ref Ref) error

	// Look asks what became of a payment: [Pending] while its page is open, [ErrUnknown] if the provider never heard of it.
	Look(ctx context.Context, ref Ref) (Event, error)

	// Refund gives money back. r.ID is the key: a second call moves nothing and says how the first one fares.
	Refund(ctx context.Context, r Refund) (RefundState, error)

	// Read takes a callback: header and body as they came, the body to the byte. What is not signed by the provider or was
	// signed more than five minutes ago is an error that wraps [ErrNotGenuine].
	Read(header http.Header, body []byte) (Event, error)
}

// Order is what a page asks the customer to pay.
type Order struct {
	PaymentID, BookingID uuid.UUID
	Amount               int64     // minor units, above 0
	Currency             string    // ISO 4217, upper case
	Title                string    // what is bought, for the customer to read
	Language             string    // BCP 47, of the page; "" = the provider's choice
	PayBy                time.Time // the page should be closed from then on
	ReturnURL            string    // absolute, http or https; where the customer goes afterwards; "" = nowhere
}

// Page is an open page.
type Page struct {
	Ref string // the provider's own id of it
	URL string // where the customer goes
}

// Ref is what is known of a payment. Page and Charge are the provider's own ids of the page and of the money; either may
// be "" when its answer was lost.
type Ref struct {
	PaymentID    uuid.UUID
	Page, Charge string
}

// Kind is what an event tells.
type Kind string

// Kinds of events.
const (
	Pending      Kind = "pending"       // the page is open, or the money under way
	Paid         Kind = "paid"          // the money is here
	Declined     Kind = "declined"      // an attempt failed and nothing was taken
	Expired      Kind = "expired"       // the page ended unpaid
	Refunded     Kind = "refunded"      // money went back
	RefundFailed Kind = "refund_failed" // money could not be given back
	Ignored      Kind = "ignored"       // genuine, but nothing to us
)

// Event is what a provider says of a payment.
//
// ID is one per event of the provider, the same in each repetition; [LookID] makes the one of an answer to Look. Paid has an
// Amount above 0 in minor units and an upper-case Currency. A payment that bears no id of ours is Ignored.
type Event struct {
	ID        string
	Kind      Kind
	PaymentID uuid.UUID
	Amount    int64     // of Paid, Refunded and RefundFailed
	Currency  string    // ISO 4217, upper case
	Charge    string    // the provider's own id of the money, if it says so
	RefundID  uuid.UUID // of Refunded and RefundFailed; zero if the refund was not made by us
	At        time.Time // the provider's clock
}

// LookID is the ID of the event that answers Look, the same each time, so that what it says is applied once.
func LookID(paymentID uuid.UUID, kind Kind) string {
	return "look:" + paymentID.String() + ":" + string(kind)
}

// Refund is money to give back.
type Refund struct {
	ID, PaymentID uuid.UUID
	Page, Charge  string // as in Ref
	Amount        int64  // minor units, above 0
	Currency      string // ISO 4217, upper case
}

// RefundState is how a refund fares.
type RefundState struct {
	Ref  string // the provider's own id of it
	Done bool   // false: under way; a callback, or Refund again with the same id, tells later
}

// Refusals of a provider.
var (
	// ErrNotGenuine means a callback that nobody proved to come from the provider, or that is too old.
	ErrNotGenuine = errors.New("payment: callback not genuine")

	// ErrUnknown means that the provider never heard of the payment.
	ErrUnknown = errors.New("payment: unknown to the provider")
)

// Permanent is a refusal that calling again can't mend.
type Permanent struct{ error }

// Unwrap gives the cause.
func (p Permanent) Unwrap() error { return p.error }

// NewPermanent marks err as a refusal that calling again can't mend.
func NewPermanent(err error) error { return Permanent{err} }
