package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/google/uuid"
)

// Statuses of a page, as GET /v1/payments/{id} says them.
const (
	open     = "open"
	paid     = "paid"
	declined = "declined"
	closed   = "closed"
)

// Statuses of a refund.
const (
	done        = "done"
	underWay    = "pending"
	refundTried = "failed"
)

// Types of callbacks.
const (
	typePaid         = "payment.paid"
	typeDeclined     = "payment.declined"
	typeExpired      = "payment.expired"
	typeRefunded     = "refund.done"
	typeRefundFailed = "refund.failed"
)

// order is the body of POST /v1/payments.
type order struct {
	PaymentID uuid.UUID `json:"paymentId"`
	BookingID uuid.UUID `json:"bookingId"`
	Amount    int64     `json:"amount"` // minor units
	Currency  string    `json:"currency"`
	Title     string    `json:"title"`
	Language  string    `json:"language,omitempty"`
	PayBy     time.Time `json:"payBy"`
	ReturnURL string    `json:"returnUrl,omitempty"`
}

// account is what the server tells of a payment.
type account struct {
	ID               uuid.UUID `json:"id"` // the payment id
	Ref              string    `json:"ref"`
	URL              string    `json:"url"`
	Status           string    `json:"status"`
	Captured         int64     `json:"captured,omitempty"` // what was taken, which may not be what was asked for
	CapturedCurrency string    `json:"capturedCurrency,omitempty"`
	Charge           string    `json:"charge,omitempty"`
	At               time.Time `json:"at"` // of its last change
}

// Refund is the body of POST /v1/refunds, and with Ref and Status its answer.
type Refund struct {
	ID        uuid.UUID `json:"id"`
	PaymentID uuid.UUID `json:"paymentId"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	Ref       string    `json:"ref,omitempty"`
	Status    string    `json:"status,omitempty"` // done pending failed
}

// message is a callback, without its id: that stands in the header which is signed.
type message struct {
	Type string    `json:"type"`
	At   time.Time `json:"at"`
	Data data      `json:"data"`
}

type data struct {
	PaymentID uuid.UUID `json:"paymentId"`
	Amount    int64     `json:"amount,omitempty"`
	Currency  string    `json:"currency,omitempty"`
	Charge    string    `json:"charge,omitempty"`
	RefundID  uuid.UUID `json:"refundId,omitzero"`
}

// bearer is how the shop proves itself to the server's API: a digest of the secret that also signs callbacks.
func bearer(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("ropeline sandbox api"))
	return "Bearer " + hex.EncodeToString(mac.Sum(nil))
}
