package sandbox

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/payment/webhook"
)

const mostBody = 64 << 10 // bytes of a request

// ServerConfig says how the sandbox runs. Each field's zero value but Secret's selects its default.
type ServerConfig struct {
	CallbackURL string // where events go; "" = nowhere until [Server.CallTo]
	Secret      string // signs callbacks, and lets the shop in; see [webhook.New]. Required
	URL         string // base of the pages' addresses; default: http and the host that the shop called
	File        string // keeps payments and callbacks over a restart; default: only in memory
	Tries       int    // of a callback before it is given up; default 24, which is about half an hour

	Backoff time.Duration    // before the second try, doubling up to 2 min; default 200 ms
	Clock   func() time.Time // of payments; default: time.Now. Callbacks are signed with the machine's own time
	Client  *http.Client     // for callbacks; default: one that gives up after 10 s
	Log     *slog.Logger     // default: discards
}

// Server is the sandbox's side. It is safe for concurrent use, and [Server.Close] ends it.
type Server struct {
	cfg    ServerConfig
	keys   *webhook.Keys
	mux    *http.ServeMux
	log    *slog.Logger
	posts  chan struct{} // as many as may be under way at once
	closed sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex // of all below
	ledger    *ledger
	behaviour Behaviour
	callback  string
	journal   *journal
	pending   int           // callbacks that are neither acknowledged nor given up
	idle      chan struct{} // closed when pending is 0
}

// NewServer makes the server and, if there is a file, goes on where the last one ended.
func NewServer(cfg ServerConfig) (*Server, error) {
	keys, err := webhook.New(cfg.Secret)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	for name, raw := range map[string]string{"callback URL": cfg.CallbackURL, "URL": cfg.URL} {
		if _, ok := absolute(raw); raw != "" && !ok {
			return nil, fmt.Errorf("sandbox: %s %q is not an absolute http or https URL", name, raw)
		}
	}
	s := &Server{cfg: cfg, keys: keys, log: cfg.Log, posts: make(chan struct{}, mostPosts), callback: cfg.CallbackURL,
		ledger: newLedger(), idle: make(chan struct{})}
	close(s.idle)
	s.defaults()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	events, err := s.restore()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s.routes()
	for _, e := range events {
		s.tell(e)
	}
	return s, nil
}

func (s *Server) defaults() {
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.cfg.Clock == nil {
		s.cfg.Clock = time.Now
	}
	if s.cfg.Client == nil {
		s.cfg.Client = &http.Client{Timeout: defaultTimeout}
	}
	if s.cfg.Tries <= 0 {
		s.cfg.Tries = 24
	}
	if s.cfg.Backoff <= 0 {
		s.cfg.Backoff = 200 * time.Millisecond
	}
	s.cfg.Secret, s.cfg.URL = strings.TrimSpace(s.cfg.Secret), strings.TrimSuffix(s.cfg.URL, "/")
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/payments", s.api(s.startPayment))
	s.mux.HandleFunc("GET /v1/payments/{id}", s.api(s.getPayment))
	s.mux.HandleFunc("POST /v1/payments/{id}/close", s.api(s.closePayment))
	s.mux.HandleFunc("POST /v1/refunds", s.api(s.startRefund))
	s.mux.HandleFunc("GET /pay/{id}", s.showPage)
	s.mux.HandleFunc("POST /pay/{id}", s.postPage)
}

// ServeHTTP answers the shop and its customers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	s.mux.ServeHTTP(w, r)
}

// Close gives up callbacks under way and returns when none is left. With a file, the next server sends them.
func (s *Server) Close() error {
	s.cancel()
	s.closed.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journal
	s.journal = nil
	return j.close()
}

// CallTo sends events to another address from now on, those that were not acknowledged yet too.
func (s *Server) CallTo(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callback = url
}

// Behave sets what goes wrong from now on; the zero value is nothing.
func (s *Server) Behave(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = b
}

// Payments are copies of all that the server remembers, oldest first.
func (s *Server) Payments() []Payment {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Payment, 0, len(s.ledger.order))
	for _, id := range s.ledger.order {
		p := *s.ledger.payments[id]
		p.Refunds = slices.Clone(p.Refunds)
		out = append(out, p)
	}
	return out
}

// api lets only the shop in, and answers with what f gives.
func (s *Server) api(f func(*http.Request) (status int, answer any, err error)) http.HandlerFunc {
	want := []byte(bearer(s.cfg.Secret))
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "not the shop", http.StatusUnauthorized)
			return
		}
		status, answer, err := f(r)
		switch {
		case errors.Is(err, errLost):
			panic(http.ErrAbortHandler) // which cuts the connection
		case err != nil:
			http.Error(w, err.Error(), statusOf(err))
		default:
			reply(w, status, answer)
		}
	}
}

var (
	errLost   = errors.New("done, but the answer is lost")
	errFailed = errors.New("failed on purpose")
	errAway   = errors.New("away on purpose")
	errBody   = errors.New("bad body")
)

func statusOf(err error) int {
	switch {
	case errors.Is(err, errUnknown):
		return http.StatusNotFound
	case errors.Is(err, errReuse), errors.Is(err, errNotOpen):
		return http.StatusConflict
	case errors.Is(err, errTooMuch), errors.Is(err, errNotOrder):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errBody):
		return http.StatusBadRequest
	case errors.Is(err, errAway):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func reply(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client is gone
}

func read(r *http.Request, into any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return errBody
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return errBody
	}
	return nil
}

// payment finds the payment of a path. The caller has the lock.
func (s *Server) payment(r *http.Request) (*Payment, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil || s.ledger.payments[id] == nil {
		return nil, errUnknown
	}
	return s.ledger.payments[id], nil
}
