package stripe

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/payment"
)

//go:embed testdata
var recorded embed.FS

const (
	testKey    = "sk_test_51ABCDEFtheRestOfItMustNeverBeSeen"
	testSecret = "whsec_theSigningSecretOfTheEndpoint"
	sessionID  = "cs_test_a1RMSyzQu5Mk2cZYoAYLOCV9hfoc5z9RuYdE4jLY2htoizGr1AJZeAcnDh"
	intentID   = "pi_3RgRPqEEXQJo9EEO1a43uB5g"
)

var paymentID, bookingID, refundID = uuid.New(), uuid.New(), uuid.New()

// shape is an object as Stripe sends it, with our ids and some members changed.
func shape(t *testing.T, name string, changes map[string]any) map[string]any {
	t.Helper()
	raw, err := recorded.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("PAYMENT", paymentID.String(), "BOOKING", bookingID.String(), "REFUND", refundID.String()).Replace(string(raw))
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	maps.Copy(object, changes)
	return object
}

func list(objects ...map[string]any) map[string]any {
	if objects == nil {
		objects = []map[string]any{}
	}
	return map[string]any{"object": "list", "data": objects, "has_more": false, "url": "/v1/list"}
}

func refusal(kind, code, message string) map[string]any {
	return map[string]any{"error": map[string]any{"type": kind, "code": code, "message": message, "request_log_url": "https://dashboard.stripe.com/logs/req_1"}}
}

// reply is one answer of the account.
type reply struct {
	status int
	body   map[string]any
}

// call is one that the account got.
type call struct {
	route, key, idempotency string
	form                    url.Values
}

// account stands for Stripe's API: for each "METHOD /path" its answers in order, the last one for ever.
type account struct {
	mu      sync.Mutex
	answers map[string][]reply
	calls   []call
}

func newAccount(t *testing.T, answers map[string][]reply) (*account, *Provider) {
	t.Helper()
	a := &account{answers: answers}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	p, err := New(Config{Key: testKey, WebhookSecrets: []string{testSecret}, ReturnURL: "https://tickets.example.com/", URL: server.URL, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return a, p
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	form, _ := url.ParseQuery(body.String())
	maps.Copy(form, r.URL.Query())
	route := r.Method + " " + r.URL.Path
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call{route, r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"), form})
	next := a.answers[route]
	if len(next) == 0 {
		next = []reply{{http.StatusNotFound, refusal("invalid_request_error", "resource_missing", "No such thing: "+route)}}
	}
	if len(next) > 1 {
		a.answers[route] = next[1:]
	}
	w.Header().Set("Request-Id", "req_1")
	w.WriteHeader(next[0].status)
	_ = json.NewEncoder(w).Encode(next[0].body)
}

// of are the calls of one route.
func (a *account) of(route string) []call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []call
	for _, c := range a.calls {
		if c.route == route {
			out = append(out, c)
		}
	}
	return out
}

func ok(body map[string]any) []reply { return []reply{{http.StatusOK, body}} }

func anOrder() payment.Order {
	return payment.Order{PaymentID: paymentID, BookingID: bookingID, Amount: 350_000, Currency: "VND", Title: "Spring Tour: F5, F6",
		Language: "vi-VN", PayBy: time.Date(2026, 3, 1, 12, 8, 0, 0, time.UTC), ReturnURL: "https://tickets.example.com/back"}
}

// event is a webhook's body around an object that nobody's call to the API caused.
func event(t *testing.T, kind, version string, object map[string]any) []byte {
	return eventOf(t, nil, kind, version, object)
}

// eventOf is a webhook's body around an object, caused by a call with this idempotency key.
func eventOf(t *testing.T, key any, kind, version string, object map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"id": "evt_1RgRPrEEXQJo9EEOWggvNEHe", "object": "event", "api_version": version, "created": 1772366561, "livemode": false,
		"pending_webhooks": 1, "request": map[string]any{"id": nil, "idempotency_key": key}, "type": kind, "data": map[string]any{"object": object},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func at(seconds int64) time.Time { return time.Unix(seconds, 0) }

func wantEvent(t *testing.T, got, want payment.Event) {
	t.Helper()
	if !got.At.Equal(want.At) {
		t.Errorf("at %v, want %v", got.At, want.At)
	}
	got.At = want.At
	if got != want {
		t.Errorf("event\n got %s\nwant %s", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
}
