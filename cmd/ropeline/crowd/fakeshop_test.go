package crowd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// fakeShop is the booking API in memory, with its seats and its payment provider, behind a fakeEdge. It keeps every promise
// unless a fault is switched on.
type fakeShop struct {
	edge   *fakeEdge
	hold   time.Duration
	faults shopFaults

	mu       sync.Mutex
	seats    map[string]*fakeBooking // by code; nil: free
	bookings map[string]*fakeBooking
	payments map[string]*fakePayment
	keys     map[string]*fakeBooking // by customer and idempotency key
}

type shopFaults struct {
	sellTwice bool // a seat that is taken is given out again
	openHolds bool // no token is asked for
	keepMoney bool // nothing is refunded
	busy      bool // every third request is told to come back
}

type fakeBooking struct {
	id, customer, status string
	seats                []string
	until                time.Time
	payments             []*fakePayment
}

type fakePayment struct {
	booking *fakeBooking
	id      string
	status  string // PENDING SUCCEEDED DECLINED REFUNDED REFUND_DUE
}

func newFakeShop(rows int) *fakeShop {
	s := &fakeShop{
		edge: newFakeEdge(), hold: 20 * time.Second, seats: map[string]*fakeBooking{}, bookings: map[string]*fakeBooking{},
		payments: map[string]*fakePayment{}, keys: map[string]*fakeBooking{},
	}
	for row := range rows {
		for n := range 10 {
			s.seats[fmt.Sprintf("%c%d", 'A'+row, n+1)] = nil
		}
	}
	return s
}

func (s *fakeShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, isAPI := strings.CutPrefix(r.URL.Path, "/v1/")
	if r.Host == "edge.test" && !isAPI && !strings.HasSuffix(path, "/holds") {
		s.edge.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.busy && time.Now().UnixNano()%3 == 0 {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, http.StatusServiceUnavailable, "busy", nil)
		return
	}
	if r.Host == "pay.test" {
		s.page(w, r)
		return
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	action := r.Method + " " + parts[0]
	if len(parts) > 2 {
		action += " " + parts[2]
	}
	customer, admitted := s.who(r)
	if strings.Contains(path, "holds") && !admitted && !s.faults.openHolds {
		s.refuse(w, http.StatusForbidden, "not-admitted", nil)
		return
	}
	s.serve(w, r, action, parts, customer)
}

func (s *fakeShop) serve(w http.ResponseWriter, r *http.Request, action string, parts []string, customer string) {
	switch action {
	case "GET events seats":
		states := map[string]string{}
		for code := range s.seats {
			states[code] = "AVAILABLE"
			if s.owner(code) != nil {
				states[code] = "HELD"
			}
		}
		s.answer(w, http.StatusOK, map[string]any{"seats": states})
		return
	case "POST events holds":
		s.holdSeats(w, r, customer)
		return
	}
	b := s.bookings[parts[min(1, len(parts)-1)]]
	if b == nil || b.customer != customer && r.Header.Get("X-Customer-Key") != "key-"+b.customer && !strings.Contains(r.Header.Get("Cookie"), "key-"+b.customer) {
		s.refuse(w, http.StatusNotFound, "no-booking", nil)
		return
	}
	live := b.status == "HOLD" && time.Now().Before(b.until)
	switch action {
	case "GET bookings":
		s.showBooking(w, b)
	case "POST holds extend":
		if !live {
			s.refuse(w, http.StatusConflict, "hold-gone", nil)
			return
		}
		b.until = time.Now().Add(s.hold)
		s.showHold(w, http.StatusOK, b)
	case "DELETE holds":
		b.status = "CANCELLED"
		w.WriteHeader(http.StatusNoContent)
	case "POST holds checkout":
		if !live {
			s.refuse(w, http.StatusConflict, "hold-gone", nil)
			return
		}
		p := &fakePayment{booking: b, id: fmt.Sprintf("pay%d", len(s.payments)), status: "PENDING"}
		b.payments, s.payments[p.id] = append(b.payments, p), p
		s.answer(w, http.StatusCreated, map[string]any{"checkoutUrl": "http://pay.test/pay/" + p.id})
	case "POST bookings cancel":
		b.status = "CANCELLED"
		for _, p := range b.payments {
			if p.status == "SUCCEEDED" {
				s.refund(p)
			}
		}
		s.showBooking(w, b)
	default:
		s.refuse(w, http.StatusNotFound, "not-found", nil)
	}
}

// who is the customer of a request, and whether a token let it in.
func (s *fakeShop) who(r *http.Request) (string, bool) {
	token := r.Header.Get("X-Queue-Token")
	if c, err := r.Cookie("ropeline_" + s.edge.room); err == nil && token == "" {
		token = c.Value
	}
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	if !s.edge.opens(token) {
		return "", false
	}
	c, err := readClaims(token)
	return c.ID, err == nil
}

// owner is who has a seat now.
func (s *fakeShop) owner(code string) *fakeBooking {
	b := s.seats[code]
	if b == nil || b.status != "CONFIRMED" && (b.status != "HOLD" || !time.Now().Before(b.until)) || !slices.Contains(b.seats, code) {
		return nil
	}
	return b
}

func (s *fakeShop) holdSeats(w http.ResponseWriter, r *http.Request, customer string) {
	var asked struct {
		Seats    []string
		Replaces string
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	key := customer + " " + r.Header.Get("Idempotency-Key")
	if b := s.keys[key]; b != nil {
		s.showHold(w, http.StatusOK, b)
		return
	}
	var conflicts []string
	for _, code := range asked.Seats {
		if _, known := s.seats[code]; !known {
			s.refuse(w, http.StatusUnprocessableEntity, "invalid", nil)
			return
		}
		if b := s.owner(code); b != nil && b.id != asked.Replaces {
			conflicts = append(conflicts, code)
		}
	}
	if len(conflicts) > 0 && !s.faults.sellTwice {
		s.refuse(w, http.StatusConflict, "seats-taken", conflicts)
		return
	}
	if old := s.bookings[asked.Replaces]; old != nil {
		old.status = "CANCELLED"
	}
	b := &fakeBooking{id: fmt.Sprintf("b%d", len(s.bookings)), customer: customer, status: "HOLD", seats: asked.Seats, until: time.Now().Add(s.hold)}
	s.bookings[b.id], s.keys[key] = b, b
	for _, code := range b.seats {
		s.seats[code] = b
	}
	w.Header().Set("X-Customer-Key", "key-"+customer)
	http.SetCookie(w, &http.Cookie{Name: "booking_customer", Value: "key-" + customer, Path: "/"})
	s.showHold(w, http.StatusCreated, b)
}

// page is the provider's: it captures, and calls back at once.
func (s *fakeShop) page(w http.ResponseWriter, r *http.Request) {
	p := s.payments[strings.TrimPrefix(r.URL.Path, "/pay/")]
	if p == nil || p.status != "PENDING" || r.Header.Get("Cookie") != "" {
		s.refuse(w, http.StatusConflict, "closed", nil)
		return
	}
	b := p.booking
	switch {
	case r.FormValue("do") != "pay":
		p.status = "DECLINED"
	case b.status == "HOLD" && time.Now().Before(b.until):
		p.status, b.status = "SUCCEEDED", "CONFIRMED"
	default:
		s.refund(p)
		if b.status == "HOLD" {
			b.status = "FAILED"
		}
	}
	w.WriteHeader(http.StatusSeeOther)
}

func (s *fakeShop) refund(p *fakePayment) {
	p.status = "REFUNDED"
	if s.faults.keepMoney {
		p.status = "REFUND_DUE"
	}
}

func (s *fakeShop) showHold(w http.ResponseWriter, status int, b *fakeBooking) {
	s.answer(w, status, map[string]any{"holdId": b.id, "seats": b.seats, "expiresInSeconds": int(time.Until(b.until) / time.Second)})
}

func (s *fakeShop) showBooking(w http.ResponseWriter, b *fakeBooking) {
	payments := []map[string]any{}
	for _, p := range b.payments {
		refunds := []map[string]string{}
		if state := map[string]string{"REFUNDED": "DONE", "REFUND_DUE": "DUE"}[p.status]; state != "" {
			refunds = append(refunds, map[string]string{"status": state})
		}
		payments = append(payments, map[string]any{"status": p.status, "refunds": refunds})
	}
	s.answer(w, http.StatusOK, map[string]any{"status": b.status, "payments": payments})
}

func (s *fakeShop) refuse(w http.ResponseWriter, status int, code string, conflicts []string) {
	s.answer(w, status, map[string]any{"type": "urn:ropeline:" + code, "code": code, "conflicts": conflicts})
}

func (s *fakeShop) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// counts are the seats that are sold and the payments that are back, as the shop knows them.
func (s *fakeShop) counts() (sold, refunded int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for code := range s.seats {
		if b := s.owner(code); b != nil && b.status == "CONFIRMED" {
			sold++
		}
	}
	for _, p := range s.payments {
		if p.status == "REFUNDED" {
			refunded++
		}
	}
	return sold, refunded
}

// do makes the shop a client, as inMemory makes one of an edge.
func (s *fakeShop) do(ctx context.Context, req request) (answer, error) {
	if !sleep(ctx, time.Duration(rand.IntN(200))*time.Millisecond) || ctx.Err() != nil { // the way there
		return answer{}, context.Cause(ctx)
	}
	origin := "http://edge.test"
	if req.origin != nil {
		origin = req.origin.String()
	}
	r := httptest.NewRequestWithContext(ctx, req.method, origin+"/", strings.NewReader(req.body))
	r.Header, r.URL.Path = req.header.Clone(), cmp.Or(strings.TrimSuffix(req.target, "?"), "/")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}, nil
}
