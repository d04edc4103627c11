package sandbox

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"ropeline/booking/payment"
	"ropeline/booking/payment/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is a sandbox, the provider that talks to it, and a shop that takes its callbacks.
type stand struct {
	*Server
	provider *Provider
	url      string // of the sandbox

	mu     sync.Mutex
	refuse []int // statuses for the next callbacks, before those that are taken
	seen   []payment.Event
	heads  []http.Header
	bodies [][]byte
}

func newStand(t *testing.T, edit ...func(*ServerConfig)) *stand {
	t.Helper()
	s := &stand{}
	s.mu.Lock() // a restarted server calls before the stand is ready
	defer s.mu.Unlock()
	secret := webhook.NewSecret()
	shop := httptest.NewServer(http.HandlerFunc(s.take))
	t.Cleanup(shop.Close)
	cfg := ServerConfig{CallbackURL: shop.URL, Secret: secret, Backoff: time.Millisecond}
	for _, e := range edit {
		e(&cfg)
	}
	server, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	front := httptest.NewServer(server)
	t.Cleanup(front.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.Server, s.url = server, front.URL
	if s.provider, err = New(Config{URL: front.URL, Secrets: []string{cfg.Secret}, Client: client}); err != nil {
		t.Fatal(err)
	}
	return s
}

// take is the shop's side of a callback.
func (s *stand) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refuse) > 0 {
		w.WriteHeader(s.refuse[0])
		s.refuse = s.refuse[1:]
		return
	}
	e, err := s.provider.Read(r.Header, body)
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.seen, s.heads, s.bodies = append(s.seen, e), append(s.heads, r.Header.Clone()), append(s.bodies, body)
}

// events waits until all callbacks were delivered and returns them.
func (s *stand) events(t *testing.T) []payment.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Idle(ctx); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]payment.Event(nil), s.seen...)
}

func anOrder() payment.Order {
	return payment.Order{PaymentID: uuid.New(), BookingID: uuid.New(), Amount: 350_000, Currency: "VND",
		Title: "Spring Tour: F5, F6", PayBy: time.Now().Add(8 * time.Minute)}
}

// started opens a page.
func (s *stand) started(t *testing.T, o payment.Order) payment.Page {
	t.Helper()
	page, err := s.provider.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// paid opens a page and pays on it.
func (s *stand) paid(t *testing.T, how How) payment.Order {
	t.Helper()
	o := anOrder()
	s.started(t, o)
	if took, err := s.Pay(o.PaymentID, how, 0); err != nil || !took {
		t.Fatalf("Pay(%s) = %v, %v", how, took, err)
	}
	return o
}

func (s *stand) look(t *testing.T, o payment.Order) payment.Event {
	t.Helper()
	e, err := s.provider.Look(t.Context(), payment.Ref{PaymentID: o.PaymentID})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
