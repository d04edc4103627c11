package api

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"ropeline/booking"
)

func TestCheckout_OpensAPageOnceForItsKey(t *testing.T) {
	s := newStand(t)
	path := "/v1/holds/" + s.held() + "/checkout"
	const body = `{"returnUrl":"https://tickets.example.com/back?x=1"}`
	first := s.do("POST", path, body, "X-Queue-Token", an, "Idempotency-Key", "pay-1").is(201, "").
		has("payBy", "2026-10-03T12:04:00Z").has("expiresAt", "2026-10-03T12:04:00Z").has("expiresInSeconds", 240).header("Idempotent-Replayed", "")
	s.do("POST", path, body, "X-Queue-Token", an, "Idempotency-Key", "pay-1").is(200, "").has("paymentId", first.text("paymentId")).header("Idempotent-Replayed", "true")
	if c := s.core.checkouts[0]; c.Key != "pay-1" || c.ReturnURL != "https://tickets.example.com/back?x=1" || c.Session != "session of an" {
		t.Errorf("got %+v", c)
	}
}

func TestCheckout_WantsAKey(t *testing.T) {
	s := newStand(t)
	s.do("POST", "/holds/"+s.held()+"/checkout", "", "X-Queue-Token", an).is(428, "key-missing")
}

func TestCheckout_ReturnsToTheWebOnly(t *testing.T) {
	s := newStand(t)
	path := "/v1/holds/" + s.held() + "/checkout"
	for _, u := range []string{"javascript:alert(1)", "/back", "//evil.example", "ftp://x.example/", "https://", "https://a:b@x.example/", "https://x.example/" + strings.Repeat("x", 2000), "\\u0000"} {
		s.do("POST", path, `{"returnUrl":"`+u+`"}`, "X-Queue-Token", an, "Idempotency-Key", "k").is(422, "invalid")
	}
	s.do("POST", path, `{"returnUrl":7}`, "X-Queue-Token", an, "Idempotency-Key", "k").is(422, "invalid")
	s.do("POST", path, `{"returnUrl":null}`, "X-Queue-Token", an, "Idempotency-Key", "k").is(201, "")
}

func TestCheckout_FailsByItsReason(t *testing.T) {
	for _, c := range []struct {
		err        error
		status     int
		code, next string
	}{
		{booking.ErrHoldGone, 409, "hold-gone", "refresh-map"},
		{booking.ErrHoldExpiring, 409, "hold-expiring", "extend-hold"},
		{booking.ErrProvider, 502, "payment-provider", "retry"},
		{booking.ErrNoProvider, 501, "no-payments", "none"},
	} {
		s := newStand(t)
		id := s.held()
		s.api.core = failingCheckout{s.core, c.err}
		s.do("POST", "/v1/holds/"+id+"/checkout", "", "X-Queue-Token", an, "Idempotency-Key", "k").is(c.status, c.code).has("next", c.next)
	}
}

func TestOrder_IsReachedWithoutATokenByItsKeyOnly(t *testing.T) {
	s := newStand(t)
	got := s.do("POST", "/events/42/holds", oneSeat, "X-Queue-Token", an).is(201, "")
	id, key := got.text("holdId"), got.Header().Get("X-Customer-Key")
	other := s.api.keys.make("binh")
	for _, path := range []string{"/orders/", "/v1/orders/", "/bookings/", "/v1/bookings/"} {
		s.do("GET", path+id, "", "X-Customer-Key", other+", "+key).is(200, "").has("bookingId", id).has("seats", []string{"F5"}).header("Cache-Control", "no-store")
		s.do("GET", path+id, "", "X-Queue-Token", an).is(200, "")
		s.do("GET", path+id, "", "X-Customer-Key", other).is(404, "no-booking")
		s.do("GET", path+id, "").is(404, "no-booking")
		s.do("GET", path+uuid.NewString(), "", "X-Customer-Key", key).is(404, "no-booking")
		s.do("GET", path+strings.ToUpper(id)+"x", "", "X-Customer-Key", key).is(404, "no-booking")
		s.do("POST", path+id+"/cancel", "", "X-Customer-Key", other).is(404, "no-booking")
	}
}

func TestOrder_SpeaksTheWordsOfItsRoute(t *testing.T) {
	s := newStand(t)
	id := s.held()
	for _, c := range []struct {
		status           booking.Status
		bookings, orders string
	}{{booking.Held, "HOLD", "PENDING"}, {booking.Confirmed, "CONFIRMED", "PAID"}, {booking.Expired, "EXPIRED", "EXPIRED"}, {booking.Failed, "FAILED", "FAILED"}} {
		s.becomes(id, c.status)
		s.do("GET", "/v1/bookings/"+id, "", "X-Queue-Token", an).is(200, "").has("status", c.bookings).has("orderId", nil)
		s.do("GET", "/v1/orders/"+id, "", "X-Queue-Token", an).is(200, "").has("status", c.orders).has("orderId", id)
	}
}

func TestCancel_SaysWhatGoesBack(t *testing.T) {
	s := newStand(t)
	id := s.held()
	s.becomes(id, booking.Confirmed)
	got := s.do("POST", "/v1/orders/"+id+"/cancel", "", "X-Queue-Token", an).is(200, "").has("status", "CANCELLED")
	refund, _ := got.body["refund"].(map[string]any)
	if refund["status"] != "DUE" || refund["reason"] != "customer_cancel" || refund["refundId"] == "" {
		t.Errorf("got %v", refund)
	}
	s.do("POST", "/v1/bookings/"+id+"/cancel", `{"customerId":"binh"}`, "X-Queue-Token", an).is(403, "wrong-customer")
	s.core.fail = booking.ErrNotCancellable
	s.do("POST", "/v1/bookings/"+id+"/cancel", "", "X-Queue-Token", an).is(409, "not-cancellable")
}

func TestConfirm_IsForTheService(t *testing.T) {
	s := newStand(t)
	id := s.held()
	body := `{"paymentId":"` + uuid.NewString() + `"}`
	for _, path := range []string{"/orders/", "/v1/bookings/"} {
		for _, token := range []string{"", "Bearer", "Bearer wrong", "Basic " + serviceToken, serviceToken} {
			s.do("POST", path+id+"/confirm", body, "Authorization", token).is(401, "unauthorized").header("WWW-Authenticate", "Bearer")
		}
		s.do("POST", path+id+"/confirm", `{}`, "Authorization", "Bearer "+serviceToken).is(422, "invalid")
		s.do("POST", path+"x/confirm", body, "Authorization", "Bearer "+serviceToken).is(404, "no-booking")
	}
	s.do("POST", "/orders/"+id+"/confirm", body, "Authorization", "Bearer "+serviceToken, "Idempotency-Key", "k").is(200, "").
		has("status", "PAID").has("outcome", "confirmed")
	off := newStand(t, func(c *Config) { c.ServiceToken = "" })
	for _, token := range []string{"", "Bearer ", "Bearer x"} {
		off.do("POST", "/orders/"+id+"/confirm", body, "Authorization", token).is(403, "service-only")
	}
}

func TestConfirm_SaysWhyItDidNot(t *testing.T) {
	for outcome, code := range map[booking.Outcome]string{
		booking.OutcomeLate: "hold-gone", booking.OutcomeMismatch: "amount-mismatch", booking.OutcomeIgnored: "not-paid",
	} {
		s := newStand(t)
		id := s.held()
		s.core.outcome = outcome
		s.do("POST", "/orders/"+id+"/confirm", `{"paymentId":"`+uuid.NewString()+`"}`, "Authorization", "Bearer "+serviceToken).is(409, code)
	}
}

func TestCallback_GoesToTheProviderAsItCame(t *testing.T) {
	s := newStand(t)
	const body = "{ \"id\": 1,\n\"x\": \"é\" }"
	s.do("POST", "/payments/callback", body).is(200, "").has("outcome", "confirmed").has("bookingId", uuid.Max.String())
	s.do("POST", "/v1/payments/callback/stripe", body).is(200, "")
	if got, want := strings.Join(s.core.callbacks, "|"), "sandbox "+body+"|stripe "+body; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.do("POST", "/v1/payments/callback/paypal", body).is(404, "not-found")
	newStand(t, func(c *Config) { c.ProviderNames = nil }).do("POST", "/payments/callback", body).is(404, "not-found")
}

func TestCallback_IsRefusedByItsReason(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{booking.ErrBadCallback, 401, "unauthorized"},
		{&booking.InvalidError{Reason: "secret"}, 400, "bad-request"},
		{booking.ErrUnknownPayment, 404, "unknown-payment"},
		{booking.ErrBusy, 503, "busy"},
		{booking.ErrAway, 503, "store-away"},
		{booking.ErrNoProvider, 404, "not-found"},
	} {
		s := newStand(t)
		s.core.fail = c.err
		s.do("POST", "/v1/payments/callback", "{}").is(c.status, c.code)
	}
	s := newStand(t)
	s.do("POST", "/v1/payments/callback", strings.Repeat("x", 10<<20)).is(413, "too-large")
	s.do("POST", "/v1/payments/callback", strings.Repeat("[", 10000)).is(400, "bad-request")
	if len(s.core.callbacks) > 0 {
		t.Error("the core was told")
	}
}
