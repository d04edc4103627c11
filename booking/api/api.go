package api

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"ropeline/booking"
)

// Core is what the API needs of the booking core. *booking.Core satisfies it; its comments are the contract.
type Core interface {
	Event(ctx context.Context, id int64) (*booking.Event, error)
	Layout(ctx context.Context, id int64) (*booking.Layout, error)
	SeatMap(ctx context.Context, id int64, compat bool) (*booking.SeatMap, error)
	Hold(ctx context.Context, r booking.HoldRequest) (b booking.Booking, replayed bool, err error)
	Booking(ctx context.Context, id uuid.UUID, customers ...string) (booking.Booking, error)
	Extend(ctx context.Context, id uuid.UUID, key string, customers ...string) (booking.Booking, error)
	Release(ctx context.Context, id uuid.UUID, customers ...string) error
	Checkout(ctx context.Context, r booking.CheckoutRequest) (booking.Checkout, error)
	Cancel(ctx context.Context, id uuid.UUID, customers ...string) (booking.Booking, error)
	Callback(ctx context.Context, provider string, header http.Header, body []byte) (booking.Outcome, uuid.UUID, error)
	Confirm(ctx context.Context, id, payment uuid.UUID) (booking.Booking, booking.Outcome, error)
}

// Config tunes an API. Each field's zero value selects its default.
type Config struct {
	Identify      func(*http.Request) (booking.Admission, bool) // whom the request's access token lets in; default: nobody
	Secret        []byte                                        // signs customer keys; default: a random one, so that keys end with the process
	OldSecrets    [][]byte                                      // customer keys signed by them are still believed
	ServiceToken  string                                        // bearer token of the confirm routes; default: they answer 403
	ProviderNames []string                                      // payment providers that may call back; a callback without a name is the first one's
	MaxBody       int64                                         // most bytes of a client's body; default 64 KiB
	MaxCallback   int64                                         // most bytes of a provider's body; default 1 MiB
	TLS           func(*http.Request) bool                      // whether the client came by TLS: cookies are then Secure; default: whether r.TLS is set
	Join          func(room string) string                      // path to POST to for a place in the room; default /_ropeline/events/{room}/queue
	Now           func() time.Time                              // for serverTime where the database was not asked; default time.Now
	Logger        *slog.Logger                                  // default: discards
	Metrics       prometheus.Registerer                         // default: unregistered
}

// API is the handler. Safe for concurrent use.
type API struct {
	core    Core
	cfg     Config
	log     *slog.Logger
	keys    keyring
	service [32]byte // digest of the service token
	layouts layouts
	metrics *metrics
	cross   http.CrossOriginProtection
}

// New returns the API over a core. It answers every request that it gets, with 404 where [Owns] is false and no page stands.
func New(core Core, cfg Config) *API {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Identify == nil {
		cfg.Identify = func(*http.Request) (booking.Admission, bool) { return booking.Admission{}, false }
	}
	if len(cfg.Secret) == 0 {
		cfg.Secret = make([]byte, 32)
		_, _ = rand.Read(cfg.Secret) // it never fails: see crypto/rand
		cfg.Logger.Warn("customer keys end with this process: no secret is configured for them")
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 64 << 10
	}
	if cfg.MaxCallback <= 0 {
		cfg.MaxCallback = 1 << 20
	}
	if cfg.TLS == nil {
		cfg.TLS = func(r *http.Request) bool { return r.TLS != nil }
	}
	if cfg.Join == nil {
		cfg.Join = func(room string) string { return "/_ropeline/events/" + room + "/queue" }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &API{
		core: core, cfg: cfg, log: cfg.Logger, keys: keyring{secrets: append([][]byte{cfg.Secret}, cfg.OldSecrets...)},
		service: digest(cfg.ServiceToken), metrics: newMetrics(cfg.Metrics),
	}
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	q := &request{Request: r, api: a, w: &answer{ResponseWriter: w}, id: requestID(r)}
	h := w.Header()
	h.Set("X-Request-Id", q.id)
	h.Set("X-Content-Type-Options", "nosniff")
	if err := a.route(q); err != nil {
		a.refuse(q, err)
	}
	a.metrics.answered(q.route, q.w.status, time.Since(began))
}

// route finds who answers a request, and lets it.
func (a *API) route(q *request) error {
	path := q.URL.EscapedPath()
	found := match(path)
	q.base, q.arg = found.base, found.arg
	one := found.byMethod(q.Method)
	switch {
	case one == nil && mentionsHolds(q.URL.Path) && !q.admitted():
		return notAdmitted{}
	case len(found.routes) == 0:
		return refusal{code: "not-found"}
	case one == nil:
		q.w.Header().Set("Allow", found.allow())
		return refusal{code: "method-not-allowed"}
	}
	q.route, q.words = one.pattern, one.words
	if !one.foreign && a.cross.Check(q.Request) != nil {
		return refusal{code: "cross-origin"}
	}
	return one.serve(a, q)
}
