package stripe

import (
	"errors"
	"strings"
	"testing"

	"ropeline/booking/payment"
)

func TestLook_SaysWhatBecameOfTheSession(t *testing.T) {
	intent := func(status string) map[string]any {
		return map[string]any{"status": "complete", "payment_intent": shape(t, "intent", map[string]any{"status": status, "latest_charge": nil})}
	}
	for name, c := range map[string]struct {
		changes map[string]any
		want    payment.Kind
	}{
		"open":                  {nil, payment.Pending},
		"expired":               {map[string]any{"status": "expired"}, payment.Expired},
		"paid":                  {map[string]any{"status": "complete", "payment_status": "paid", "payment_intent": shape(t, "intent", nil)}, payment.Paid},
		"a slow method":         {intent("processing"), payment.Pending},
		"a slow method refused": {intent("requires_payment_method"), payment.Declined},
		"cancelled":             {intent("canceled"), payment.Expired},
	} {
		t.Run(name, func(t *testing.T) {
			a, p := newAccount(t, map[string][]reply{getSession: ok(shape(t, "session", c.changes))})
			got, err := p.Look(t.Context(), payment.Ref{PaymentID: paymentID, Page: sessionID})
			if err != nil {
				t.Fatal(err)
			}
			want := payment.Event{ID: payment.LookID(paymentID, c.want), Kind: c.want, PaymentID: paymentID, At: at(1772366400)}
			if c.changes["payment_intent"] != nil {
				want.Charge, want.At = intentID, at(1772366500)
			}
			if c.want == payment.Paid {
				want.Amount, want.Currency, want.At = 350_000, "VND", at(1772366560)
			}
			wantEvent(t, got, want)
			if got := a.of(getSession)[0].form.Get("expand[0]"); got != "payment_intent.latest_charge" {
				t.Errorf("expand %q", got)
			}
		})
	}
}

func TestLook_FindsThePaymentOfALostSession(t *testing.T) {
	const search = "GET /v1/payment_intents/search"
	found := map[string]any{"object": "search_result", "has_more": false, "next_page": nil, "data": []any{
		shape(t, "intent", map[string]any{"id": "pi_1", "status": "requires_payment_method"}), shape(t, "intent", nil)}}
	a, p := newAccount(t, map[string][]reply{search: ok(found)})
	got, err := p.Look(t.Context(), payment.Ref{PaymentID: paymentID})
	if err != nil {
		t.Fatal(err)
	}
	wantEvent(t, got, payment.Event{ID: payment.LookID(paymentID, payment.Paid), Kind: payment.Paid, PaymentID: paymentID,
		Amount: 350_000, Currency: "VND", Charge: intentID, At: at(1772366560)})
	if query := a.of(search)[0].form.Get("query"); !strings.Contains(query, "metadata['payment_id']:'"+paymentID.String()+"'") {
		t.Errorf("query %q", query)
	}

	_, p = newAccount(t, map[string][]reply{search: ok(map[string]any{"object": "search_result", "has_more": false, "data": []any{}})})
	if _, err := p.Look(t.Context(), payment.Ref{PaymentID: paymentID}); !errors.Is(err, payment.ErrUnknown) {
		t.Errorf("nothing found: %v", err)
	}
	_, p = newAccount(t, map[string][]reply{"GET /v1/payment_intents/" + intentID: ok(shape(t, "intent", nil))})
	if e, err := p.Look(t.Context(), payment.Ref{PaymentID: paymentID, Charge: intentID}); err != nil || e.Kind != payment.Paid {
		t.Errorf("by the intent: %+v, %v", e, err)
	}
	if _, err := p.Look(t.Context(), payment.Ref{PaymentID: paymentID, Page: sessionID}); !errors.Is(err, payment.ErrUnknown) {
		t.Errorf("no such session: %v", err)
	}
}
