package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/booking/payment"
	"ropeline/booking/payment/sandbox"
	"ropeline/internal/pgbox/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shop is the API over a real core, which sells event 42 by the sandbox.
type shop struct {
	*stand
	sandbox *sandbox.Server
	server  *httptest.Server // the API, for who calls back
}

const sandboxSecret = "whsec_dGhlIHNlY3JldCBvZiB0aGUgdGVzdHMgaGVyZQ=="

func newShop(t *testing.T, sale bookingtest.Sale) *shop {
	t.Helper()
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, sale)
	pays, err := sandbox.NewServer(sandbox.ServerConfig{Secret: sandboxSecret, Backoff: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pays.Close() })
	bank := httptest.NewServer(pays)
	t.Cleanup(bank.Close)
	provider, err := sandbox.New(sandbox.Config{URL: bank.URL, Secrets: []string{sandboxSecret}})
	if err != nil {
		t.Fatal(err)
	}
	core := bookingtest.Core(t, url, booking.Config{Providers: []payment.Provider{provider}})
	s := &shop{stand: newStand(t), sandbox: pays}
	s.api.core = core
	s.server = httptest.NewServer(s.api)
	t.Cleanup(s.server.Close)
	pays.CallTo(s.server.URL + "/payments/callback")
	return s
}

var springTour = bookingtest.Sale{Rooms: []string{"spring-tour"}, Cap: 4, MaxSeats: 4}

func TestShop_SellsASeatFromTheMapToTheRefund(t *testing.T) {
	s := newShop(t, springTour)
	s.do("GET", "/v1/events/42", "").is(200, "").has("rooms", []string{"spring-tour"})
	s.do("GET", "/v1/events/42/layout", "").is(200, "")
	first := s.do("GET", "/v1/events/42/seats", "").is(200, "").has("free", 100)
	s.do("GET", "/v1/events/42/seats", "", "If-None-Match", first.Header().Get("Etag")).is(304, "")

	hold := s.do("POST", "/v1/events/42/holds", `{"seats":["A2",{"seat":"A1","ticketType":"child"}]}`, "X-Queue-Token", an, "Idempotency-Key", "h").is(201, "").
		has("amount", map[string]any{"amount": 450000, "currency": "VND"})
	id, key := hold.text("holdId"), hold.Header().Get("X-Customer-Key")
	s.do("POST", "/v1/events/42/holds", `{"seats":["A1","A3"]}`, "X-Queue-Token", "spring-tour/binh").is(409, "seats-taken").has("conflicts", []string{"A1"})
	s.do("POST", "/v1/holds/"+id+"/extend", "", "X-Queue-Token", an, "Idempotency-Key", "e").is(200, "")
	page := s.do("POST", "/v1/holds/"+id+"/checkout", "", "X-Queue-Token", an, "Idempotency-Key", "p").is(201, "")
	if _, err := s.sandbox.Pay(uuid.MustParse(page.text("paymentId")), sandbox.Twice, 0); err != nil {
		t.Fatal(err)
	}
	s.idle()

	s.do("GET", "/v1/orders/"+id, "", "X-Customer-Key", key).is(200, "").has("status", "PAID")
	s.do("DELETE", "/v1/holds/"+id, "", "X-Queue-Token", an).is(409, "already-confirmed")
	s.do("POST", "/v1/bookings/"+id+"/confirm", `{"paymentId":"`+page.text("paymentId")+`"}`, "Authorization", "Bearer "+serviceToken).is(200, "").has("status", "CONFIRMED")
	s.do("POST", "/v1/bookings/"+id+"/confirm", `{"paymentId":"`+uuid.NewString()+`"}`, "Authorization", "Bearer "+serviceToken).is(404, "unknown-payment")
	back := s.do("POST", "/v1/bookings/"+id+"/cancel", "", "X-Customer-Key", key).is(200, "").has("status", "CANCELLED")
	if refund, _ := back.body["refund"].(map[string]any); refund["reason"] != "customer_cancel" {
		t.Errorf("got refund %v", refund)
	}
	s.do("POST", "/v1/bookings/"+id+"/cancel", "", "X-Customer-Key", key).is(200, "").has("status", "CANCELLED")
}

// idle waits until the sandbox has called back.
func (s *shop) idle() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	if err := s.sandbox.Idle(ctx); err != nil {
		s.t.Fatal(err)
	}
}

func TestShop_RefusesAsTheTableSays(t *testing.T) {
	s := newShop(t, springTour)
	hold := func(body string, header ...string) reply {
		return s.do("POST", "/v1/events/42/holds", body, append(header, "X-Queue-Token", an)...)
	}
	hold(`{"seats":["Z99"]}`).is(422, "invalid")
	hold(`{"seats":[{"seat":"A1","ticketType":"dog"}]}`).is(422, "invalid")
	one := hold(`{"seats":["A1"]}`, "Idempotency-Key", "k").is(201, "").text("holdId")
	hold(`{"seats":["A1"]}`, "Idempotency-Key", "k").is(200, "").has("holdId", one)
	hold(`{"seats":["A2"]}`, "Idempotency-Key", "k").is(422, "key-reuse")
	hold(`{"seats":["A2","A3","A4","A5"]}`).is(409, "cap-reached")
	swapped := hold(`{"seats":["A1","A2"],"replaces":"`+one+`"}`).is(201, "").text("holdId")
	hold(`{"seats":["A3"],"replaces":"`+one+`"}`).is(409, "hold-gone")
	s.do("DELETE", "/v1/holds/"+swapped, "", "X-Queue-Token", an).is(204, "")
	s.do("POST", "/v1/holds/"+swapped+"/checkout", "", "X-Queue-Token", an, "Idempotency-Key", "p").is(409, "hold-gone")
	s.do("POST", "/v1/holds/"+swapped+"/extend", "", "X-Queue-Token", an).is(409, "hold-gone")
	s.do("POST", "/v1/events/43/holds", oneSeat, "X-Queue-Token", an).is(404, "no-event")
	s.do("POST", "/v1/payments/callback", `{"type":"payment.paid"}`).is(401, "unauthorized")
}

func TestShop_SellsASeatThatFiftyWantToOne(t *testing.T) {
	s := newShop(t, springTour)
	answers := make(chan string, 50)
	var racers sync.WaitGroup
	for i := range 50 {
		racers.Go(func() {
			r, _ := http.NewRequest("POST", s.server.URL+"/events/42/holds", strings.NewReader(`{"seats":["A7"]}`))
			r.Header.Set("X-Queue-Token", fmt.Sprintf("spring-tour/visitor-%d", i))
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer res.Body.Close()
			var told struct{ Code, Status any }
			body, _ := io.ReadAll(res.Body)
			_ = json.Unmarshal(body, &told)
			answers <- fmt.Sprint(res.StatusCode, " ", told.Code)
		})
	}
	racers.Wait()
	close(answers)
	count := map[string]int{}
	for a := range answers {
		count[a]++
	}
	if count["201 <nil>"] != 1 || count["409 seats-taken"] != 49 {
		t.Errorf("got %v, want one 201 and 49 times 409", count)
	}
}
