package stripe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	api "github.com/stripe/stripe-go/v84"
	"github.com/stripe/stripe-go/v84/webhook"

	"ropeline/booking/payment"
)

func signed(body []byte, secret string, when time.Time) http.Header {
	signature := hex.EncodeToString(webhook.ComputeSignature(when, body, secret))
	return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s", when.Unix(), signature)}}
}

func TestRead_UnderstandsStripesEvents(t *testing.T) {
	_, p := newAccount(t, nil)
	complete := map[string]any{"status": "complete", "payment_status": "paid", "payment_intent": intentID}
	slow := map[string]any{"status": "complete", "payment_intent": intentID}
	foreign := map[string]any{"status": "complete", "payment_status": "paid", "client_reference_id": "cart-7", "metadata": map[string]any{}}
	byMetadata := map[string]any{"status": "complete", "payment_status": "paid", "payment_intent": intentID, "client_reference_id": nil}
	money := payment.Event{Amount: 350_000, Currency: "VND", Charge: intentID, PaymentID: paymentID}
	refunded := money
	refunded.RefundID = refundID
	kind := func(e payment.Event, k payment.Kind) payment.Event { e.Kind = k; return e }
	for name, c := range map[string]struct {
		event, object string
		changes       map[string]any
		want          payment.Event
	}{
		"paid":             {"checkout.session.completed", "session", complete, kind(money, payment.Paid)},
		"paid, no ref":     {"checkout.session.completed", "session", byMetadata, kind(money, payment.Paid)},
		"under way":        {"checkout.session.completed", "session", slow, payment.Event{Kind: payment.Pending, PaymentID: paymentID, Charge: intentID}},
		"paid at last":     {"checkout.session.async_payment_succeeded", "session", complete, kind(money, payment.Paid)},
		"refused":          {"checkout.session.async_payment_failed", "session", slow, payment.Event{Kind: payment.Declined, PaymentID: paymentID, Charge: intentID}},
		"expired":          {"checkout.session.expired", "session", map[string]any{"status": "expired"}, payment.Event{Kind: payment.Expired, PaymentID: paymentID}},
		"another shop's":   {"checkout.session.completed", "session", foreign, payment.Event{Kind: payment.Ignored, Amount: 350_000, Currency: "VND"}},
		"refund updated":   {"refund.updated", "refund", nil, kind(refunded, payment.Refunded)},
		"refund (old)":     {"charge.refund.updated", "refund", nil, kind(refunded, payment.Refunded)},
		"refund failed":    {"refund.failed", "refund", map[string]any{"status": "failed"}, kind(refunded, payment.RefundFailed)},
		"refund under way": {"refund.updated", "refund", map[string]any{"status": "pending"}, kind(refunded, payment.Ignored)},
		"refund by hand":   {"refund.updated", "refund", map[string]any{"metadata": map[string]any{}}, payment.Event{Kind: payment.Ignored, Amount: 350_000, Currency: "VND", Charge: intentID}},
		"money by hand":    {"charge.refunded", "charge", nil, kind(money, payment.Refunded)},
		"something else":   {"customer.created", "session", nil, payment.Event{Kind: payment.Ignored}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []string{api.APIVersion, "2022-08-01"} {
				body := event(t, c.event, version, shape(t, c.object, c.changes))
				got, err := p.Read(signed(body, testSecret, time.Now()), body)
				if err != nil {
					t.Fatal(err)
				}
				c.want.ID, c.want.At = "evt_1RgRPrEEXQJo9EEOWggvNEHe", at(1772366561)
				wantEvent(t, got, c.want)
			}
		})
	}
}

func TestRead_LeavesOurOwnRefundsToTheirOwnEvents(t *testing.T) {
	_, p := newAccount(t, nil)
	body := eventOf(t, refundID.String(), "charge.refunded", api.APIVersion, shape(t, "charge", nil))
	got, err := p.Read(signed(body, testSecret, time.Now()), body)
	if err != nil || got.Kind != payment.Ignored || got.PaymentID != paymentID {
		t.Errorf("Read = %+v, %v", got, err)
	}
}

func TestRead_RefusesWhatStripeDidNotSend(t *testing.T) {
	_, p := newAccount(t, nil)
	body := event(t, "checkout.session.completed", api.APIVersion, shape(t, "session", nil))
	good := signed(body, testSecret, time.Now())
	for name, c := range map[string]struct {
		header http.Header
		body   []byte
	}{
		"a space more":   {good, append([]byte(" "), body...)},
		"no signature":   {http.Header{}, body},
		"another secret": {signed(body, "whsec_another", time.Now()), body},
		"too old":        {signed(body, testSecret, time.Now().Add(-6*time.Minute)), body},
		"no JSON":        {signed([]byte("{"), testSecret, time.Now()), []byte("{")},
		"no event":       {signed([]byte(`{"object":"v2.core.event"}`), testSecret, time.Now()), []byte(`{"object":"v2.core.event"}`)},
		"nothing":        {nil, nil},
	} {
		if e, err := p.Read(c.header, c.body); !errors.Is(err, payment.ErrNotGenuine) || e != (payment.Event{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestRead_TakesEitherSecretWhileOneIsExchanged(t *testing.T) {
	p, err := New(Config{Key: testKey, WebhookSecrets: []string{"whsec_new", testSecret}})
	if err != nil {
		t.Fatal(err)
	}
	body := event(t, "checkout.session.expired", api.APIVersion, shape(t, "session", nil))
	for _, secret := range []string{"whsec_new", testSecret} {
		if _, err := p.Read(signed(body, secret, time.Now()), body); err != nil {
			t.Errorf("%v", err)
		}
	}
}
