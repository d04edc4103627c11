package stripe

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"ropeline/booking/payment"
)

const (
	createRefund = "POST /v1/refunds"
	listRefunds  = "GET /v1/refunds"
)

func aRefund() payment.Refund {
	return payment.Refund{ID: refundID, PaymentID: paymentID, Page: sessionID, Charge: intentID, Amount: 350_000, Currency: "VND"}
}

func TestRefund_SendsItsIDAsTheKey(t *testing.T) {
	a, p := newAccount(t, map[string][]reply{listRefunds: ok(list()), createRefund: ok(shape(t, "refund", nil))})
	state, err := p.Refund(t.Context(), aRefund())
	if err != nil || !state.Done || state.Ref != "re_3RgRPqEEXQJo9EEO1Nispe2e" {
		t.Fatalf("Refund = %+v, %v", state, err)
	}
	sent := a.of(createRefund)[0]
	if sent.idempotency != refundID.String() {
		t.Errorf("idempotency key %q", sent.idempotency)
	}
	for name, want := range map[string]string{"amount": "350000", "payment_intent": intentID, "metadata[refund_id]": refundID.String(), "metadata[payment_id]": paymentID.String()} {
		if got := sent.form.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestRefund_ThatWasMadeIsNotMadeAgainAfterStripeForgotItsKey(t *testing.T) {
	other := shape(t, "refund", map[string]any{"id": "re_other", "metadata": map[string]any{"refund_id": uuid.NewString()}})
	for status, want := range map[string]payment.RefundState{"succeeded": {Ref: "re_3RgRPqEEXQJo9EEO1Nispe2e", Done: true}, "pending": {Ref: "re_3RgRPqEEXQJo9EEO1Nispe2e"}} {
		a, p := newAccount(t, map[string][]reply{listRefunds: ok(list(other, shape(t, "refund", map[string]any{"status": status})))})
		state, err := p.Refund(t.Context(), aRefund())
		if err != nil || state != want {
			t.Errorf("%s: %+v, %v", status, state, err)
		}
		if len(a.of(createRefund)) != 0 {
			t.Errorf("%s: made again", status)
		}
	}
}

func TestRefund_ThatFailedIsPermanent(t *testing.T) {
	failed := shape(t, "refund", map[string]any{"status": "failed", "failure_reason": "expired_or_canceled_card"})
	_, p := newAccount(t, map[string][]reply{listRefunds: ok(list(failed))})
	if _, err := p.Refund(t.Context(), aRefund()); !errors.As(err, new(payment.Permanent)) {
		t.Errorf("Refund = %v", err)
	}
}

func TestRefund_OfMoneyThatIsBackIsDone(t *testing.T) {
	_, p := newAccount(t, map[string][]reply{listRefunds: ok(list()),
		createRefund: {{400, refusal("invalid_request_error", "charge_already_refunded", "Charge ch_1 has already been refunded.")}}})
	if state, err := p.Refund(t.Context(), aRefund()); err != nil || !state.Done {
		t.Errorf("Refund = %+v, %v", state, err)
	}
}

func TestRefund_FindsTheMoneyByItsSession(t *testing.T) {
	a, p := newAccount(t, map[string][]reply{
		getSession:  ok(shape(t, "session", map[string]any{"status": "complete", "payment_status": "paid", "payment_intent": intentID})),
		listRefunds: ok(list()), createRefund: ok(shape(t, "refund", nil)),
	})
	r := aRefund()
	r.Charge = ""
	if _, err := p.Refund(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := a.of(createRefund)[0].form.Get("payment_intent"); got != intentID {
		t.Errorf("refunded %q", got)
	}
	_, p = newAccount(t, map[string][]reply{getSession: ok(shape(t, "session", nil))})
	if _, err := p.Refund(t.Context(), r); !errors.As(err, new(payment.Permanent)) {
		t.Errorf("an unpaid session: %v", err)
	}
}

func TestRefund_SurvivesAnOutage(t *testing.T) {
	a, p := newAccount(t, map[string][]reply{
		listRefunds:  ok(list()),
		createRefund: {{503, refusal("api_error", "", "Sorry")}, {200, shape(t, "refund", nil)}},
	})
	if _, err := p.Refund(t.Context(), aRefund()); err == nil || errors.As(err, new(payment.Permanent)) {
		t.Fatalf("Refund = %v, want an error that may pass", err)
	}
	if state, err := p.Refund(t.Context(), aRefund()); err != nil || !state.Done {
		t.Fatalf("Refund = %+v, %v", state, err)
	}
	for _, c := range a.of(createRefund) {
		if c.idempotency != refundID.String() {
			t.Errorf("a try with key %q", c.idempotency)
		}
	}
}
