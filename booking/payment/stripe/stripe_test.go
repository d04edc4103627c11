package stripe

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"ropeline/booking/payment"
)

const (
	createSession = "POST /v1/checkout/sessions"
	getSession    = "GET /v1/checkout/sessions/" + sessionID
	expireSession = "POST /v1/checkout/sessions/" + sessionID + "/expire"
)

func TestStart_AsksForExactlyTheOrder(t *testing.T) {
	a, p := newAccount(t, map[string][]reply{createSession: ok(shape(t, "session", nil))})
	page, err := p.Start(t.Context(), anOrder())
	if err != nil {
		t.Fatal(err)
	}
	if page.Ref != sessionID || !strings.HasPrefix(page.URL, "https://checkout.stripe.com/") {
		t.Errorf("page %+v", page)
	}
	sent := a.of(createSession)[0]
	if sent.idempotency != paymentID.String() || sent.key != "Bearer "+testKey {
		t.Errorf("idempotency key %q", sent.idempotency)
	}
	for name, want := range map[string]string{
		"mode":                 "payment",
		"client_reference_id":  paymentID.String(),
		"metadata[payment_id]": paymentID.String(),
		"payment_intent_data[metadata][payment_id]":     paymentID.String(),
		"line_items[0][price_data][currency]":           "vnd",
		"line_items[0][price_data][unit_amount]":        "350000",
		"line_items[0][quantity]":                       "1",
		"line_items[0][price_data][product_data][name]": "Spring Tour: F5, F6",
		"payment_method_types[0]":                       "card",
		"adaptive_pricing[enabled]":                     "false",
		"locale":                                        "vi",
		"success_url":                                   "https://tickets.example.com/back",
		"expires_at":                                    "1772368980", // 35 minutes after PayBy
	} {
		if got := sent.form.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestStart_AgainSendsTheSameToTheByte(t *testing.T) {
	a, p := newAccount(t, map[string][]reply{createSession: ok(shape(t, "session", nil))})
	for range 2 {
		if _, err := p.Start(t.Context(), anOrder()); err != nil {
			t.Fatal(err)
		}
	}
	sent := a.of(createSession)
	if sent[0].form.Encode() != sent[1].form.Encode() || sent[0].idempotency != sent[1].idempotency {
		t.Errorf("calls differ:\n%s\n%s", sent[0].form.Encode(), sent[1].form.Encode())
	}
}

func TestStart_RefusesWhatStripeCanNotTakeWithoutCalling(t *testing.T) {
	a, p := newAccount(t, nil)
	for name, edit := range map[string]func(*payment.Order){
		"nothing to pay":     func(o *payment.Order) { o.Amount = 0 },
		"a small currency":   func(o *payment.Order) { o.Currency = "vnd" },
		"a third decimal":    func(o *payment.Order) { o.Amount, o.Currency = 1001, "KWD" },
		"parts of an ariary": func(o *payment.Order) { o.Amount, o.Currency = 1001, "MGA" },
	} {
		o := anOrder()
		edit(&o)
		if _, err := p.Start(t.Context(), o); !errors.As(err, new(payment.Permanent)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.cfg.ReturnURL = ""
	o := anOrder()
	o.ReturnURL = ""
	if _, err := p.Start(t.Context(), o); !errors.As(err, new(payment.Permanent)) || !strings.Contains(err.Error(), "return URL") {
		t.Errorf("no way back: %v", err)
	}
	if len(a.calls) != 0 {
		t.Errorf("%d calls", len(a.calls))
	}
}

func TestAmounts_ComeBackAsTheyWent(t *testing.T) {
	for _, c := range []struct {
		amount   int64
		currency string
		stripe   int64
	}{
		{350_000, "VND", 350_000}, {500, "JPY", 500}, {1999, "EUR", 1999}, {1990, "KWD", 1990},
		{5, "ISK", 500}, {3000, "UGX", 300_000}, {120_000, "MGA", 1200},
	} {
		sent, err := toStripe(c.amount, c.currency)
		if err != nil || sent != c.stripe {
			t.Errorf("%d %s = %d, %v, want %d", c.amount, c.currency, sent, err, c.stripe)
		}
		if back, currency := fromStripe(sent, strings.ToLower(c.currency)); back != c.amount || currency != c.currency {
			t.Errorf("%d %s came back as %d %s", c.amount, c.currency, back, currency)
		}
	}
}

func TestClose_ExpiresAnOpenSessionAndLeavesAnEndedOne(t *testing.T) {
	ref := payment.Ref{PaymentID: paymentID, Page: sessionID}
	ended := reply{http.StatusBadRequest, refusal("invalid_request_error", "", `Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of `+"`complete`.")}
	for name, c := range map[string]struct {
		answers map[string][]reply
		want    error
		fails   bool
	}{
		"open":     {answers: map[string][]reply{expireSession: ok(shape(t, "session", map[string]any{"status": "expired"}))}},
		"complete": {answers: map[string][]reply{expireSession: {ended}, getSession: ok(shape(t, "session", map[string]any{"status": "complete"}))}},
		"expired":  {answers: map[string][]reply{expireSession: {ended}, getSession: ok(shape(t, "session", map[string]any{"status": "expired"}))}},
		"busy":     {answers: map[string][]reply{expireSession: {ended}, getSession: ok(shape(t, "session", nil))}, fails: true},
		"unknown":  {want: payment.ErrUnknown, fails: true},
	} {
		_, p := newAccount(t, c.answers)
		err := p.Close(t.Context(), ref)
		if (err != nil) != c.fails || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, p := newAccount(t, nil)
	if err := p.Close(t.Context(), payment.Ref{PaymentID: paymentID}); !errors.Is(err, payment.ErrUnknown) {
		t.Errorf("no session: %v", err)
	}
}

func TestFaults_SayWhetherTheyMayPassAndNeverShowTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		answer             reply
		permanent, unknown bool
	}{
		"bad request":    {reply{400, refusal("invalid_request_error", "parameter_invalid_integer", "Invalid integer "+testKey)}, true, false},
		"other request":  {reply{400, refusal("idempotency_error", "", "Keys for idempotent requests can only be used with the same parameters")}, true, false},
		"wrong key":      {reply{401, refusal("invalid_request_error", "", "Invalid API Key provided: "+testKey)}, false, false},
		"key in use":     {reply{409, refusal("idempotency_error", "idempotency_key_in_use", "There is currently another in-progress request")}, false, false},
		"too many":       {reply{429, refusal("invalid_request_error", "rate_limit", "Too many requests")}, false, false},
		"away":           {reply{503, refusal("api_error", "", "Sorry")}, false, false},
		"missing":        {reply{404, refusal("invalid_request_error", "resource_missing", "No such price")}, false, true},
		"no JSON at all": {reply{502, nil}, false, false},
	} {
		_, p := newAccount(t, map[string][]reply{createSession: {c.answer}})
		_, err := p.Start(t.Context(), anOrder())
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if got := errors.As(err, new(payment.Permanent)); got != c.permanent {
			t.Errorf("%s: permanent %v: %v", name, got, err)
		}
		if got := errors.Is(err, payment.ErrUnknown); got != c.unknown {
			t.Errorf("%s: unknown %v: %v", name, got, err)
		}
		if strings.Contains(err.Error(), testKey) || strings.Contains(err.Error(), "theRestOfIt") {
			t.Errorf("%s: the key is in %v", name, err)
		}
	}
}

func TestNew_RefusesBadSettingsWithoutShowingThem(t *testing.T) {
	for _, c := range []Config{
		{Key: "pk_test_publishable0123", WebhookSecrets: []string{testSecret}},
		{Key: "somethingElse0123", WebhookSecrets: []string{testSecret}},
		{WebhookSecrets: []string{testSecret}},
		{Key: testKey},
		{Key: testKey, WebhookSecrets: []string{"theRestOfIt"}},
		{Key: testKey, WebhookSecrets: []string{testSecret, "whsec_"}},
	} {
		_, err := New(c)
		if err == nil {
			t.Errorf("taken: %+v", c)
			continue
		}
		for _, secret := range []string{"publishable0123", "somethingElse0123", "theRestOfIt"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v shows a secret", err)
			}
		}
	}
	p, err := New(Config{Key: testKey + "\n", WebhookSecrets: []string{testSecret + "\n"}})
	if err != nil || p.Name() != "stripe" || p.Live() {
		t.Errorf("keys from files: %v", err)
	}
}

func TestLocale_IsOneThatStripeSpeaks(t *testing.T) {
	for language, want := range map[string]string{"vi-VN": "vi", "en": "en", "": "auto", "tlh": "auto", "VI": "vi"} {
		if got := locale(language); got != want {
			t.Errorf("locale(%q) = %q, want %q", language, got, want)
		}
	}
}
