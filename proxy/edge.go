package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ropeline/admitter/token"
	"ropeline/queue"
	"ropeline/web"
)

// Tokens signs and verifies access tokens. *token.Authority satisfies it.
type Tokens interface {
	Sign(c token.Claims) (string, error)
	Verify(room, tok string) (token.Claims, error)
	Keys() *token.Keys
}

// Room is one waiting room as the edge serves it.
type Room struct {
	Route
	Title      string
	Entry      string // path on the room's host where a visitor without JavaScript goes when admitted; "" = "/"
	Languages  []string
	Upstream   *url.URL
	Session    time.Duration
	SessionMax time.Duration // longest a session may last with sliding or `extend`
	Claim      time.Duration // life of a provisional session
	Sliding    bool          // a session in use is renewed at half life

	ForwardToken bool           // the upstream verifies the access token itself
	Identity     string         // header, set by a trusted proxy, that names the customer; "" = cookie
	OutageOpen   bool           // on_outage: open
	Zone         *time.Location // in which times are shown without JavaScript; nil = UTC
	CORSOrigins  []string       // scheme://host[:port] of pages that may call the queue API

	Line *queue.Line
}

// Config tunes an Edge. Each field's zero value selects its default.
type Config struct {
	TrustedProxies []netip.Prefix // whose X-Forwarded-* and Forwarded are believed; default: nobody's
	Upstream       UpstreamConfig // the way to upstreams

	// Local are upstreams inside this process, by the scheme of their URLs: see [LocalTransport].
	Local map[string]http.RoundTripper
	// Core is the booking core, if Local has the scheme booking; default: such an upstream is gated as any other.
	Core Core

	Logger  *slog.Logger          // default: discards
	Metrics prometheus.Registerer // default: unregistered
}

// Edge is the http.Handler in front of a site: it passes admitted visitors through and has the others wait. Safe for
// concurrent use.
type Edge struct {
	tokens  Tokens
	sealer  atomic.Pointer[queue.Sealer]
	site    atomic.Pointer[site]
	trust   *trust
	up      *upstream
	core    Core // nil: none
	log     *slog.Logger
	metrics *metrics
	api     *http.ServeMux
	events  *http.ServeMux // the queue API at the core's addresses
	visits  sessions

	unwritten seldom // lines about what Redis did not take
}

// site is the rooms and the default upstream at one time.
type site struct {
	table    *table
	rooms    []*room
	byID     map[string]*room
	upstream *url.URL
}

// room is a Room with what is made from it once.
type room struct {
	Room
	page   *web.Page
	cors   map[string]bool
	noRoom atomic.Pointer[queue.Snapshot] // the snapshot under which a visitor was last refused at once
	status status
}

// New returns an Edge that has no rooms yet and passes nothing (503): see [Edge.SetSite] and [Edge.SetSealer].
func New(tokens Tokens, cfg Config) *Edge {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Upstream.Logger = cfg.Logger
	e := &Edge{
		tokens: tokens, trust: newTrust(cfg.TrustedProxies), up: newUpstream(cfg.Upstream), log: cfg.Logger,
		core: cfg.Core, metrics: newMetrics(cfg.Metrics), visits: newSessions(),
	}
	e.up.addLocal(cfg.Local)
	e.api, e.events = e.routes(), e.eventRoutes()
	return e
}

// SetSealer changes the keys of place tokens.
func (e *Edge) SetSealer(s *queue.Sealer) { e.sealer.Store(s) }

// SetSite changes the rooms, and the upstream for what no room matches, without dropping a request. It refuses a room
// whose page can't be made, an upstream that nothing here speaks to, and beside the booking core a room whose cookie would
// have the name of the core's own.
func (e *Edge) SetSite(rooms []Room, upstream *url.URL) error {
	if upstream == nil {
		return errors.New("proxy: no upstream")
	}
	if !e.up.speaks(upstream.Scheme) {
		return fmt.Errorf("proxy: upstream %s: nothing here speaks %q", upstream.Redacted(), upstream.Scheme)
	}
	s := &site{byID: make(map[string]*room, len(rooms)), upstream: upstream}
	core := isCore(upstream)
	var routes []Route
	for _, given := range rooms {
		if given.Upstream == nil {
			given.Upstream = upstream
		}
		if !e.up.speaks(given.Upstream.Scheme) {
			return fmt.Errorf("room %s: upstream %s: nothing here speaks %q", given.Route.Room, given.Upstream.Redacted(), given.Upstream.Scheme)
		}
		core = core || isCore(given.Upstream)
		rm := &room{Room: given, cors: map[string]bool{}}
		var err error
		if rm.page, err = web.NewPage(rm.text()); err != nil {
			return fmt.Errorf("room %s: %w", rm.id(), err)
		}
		for _, origin := range given.CORSOrigins {
			rm.cors[strings.ToLower(origin)] = true
		}
		s.rooms = append(s.rooms, rm)
		s.byID[rm.id()] = rm
		routes = append(routes, given.Route)
	}
	if rm := s.byID[customerRoom]; rm != nil && core {
		return fmt.Errorf("room %s: the booking core has a cookie of this name: choose another id", rm.id())
	}
	s.table = newTable(routes)
	e.site.Store(s)
	return nil
}

// CloseUpgraded ends the upgraded connections, which no server's Shutdown knows of.
func (e *Edge) CloseUpgraded(ctx context.Context) error { return e.up.CloseUpgraded(ctx) }

func (r *room) id() string { return r.Route.Room }

func (r *room) text() web.Room {
	return web.Room{ID: r.id(), Title: r.Title, Languages: r.Languages, Entry: r.Entry}
}

// ServeHTTP judges the target, then answers by the queue API, passes through, or gates.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rawPath, rawQuery, refused := judgeTarget(r)
	if refused != nil {
		if r.ProtoMajor == 1 { // over HTTP/2 this would end the other requests of the connection, too
			w.Header().Set("Connection", "close")
		}
		if refused.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		}
		e.refuse(w, r, nil, refused.status, refused.slug, refused.detail)
		return
	}
	s := e.site.Load()
	if s == nil || e.sealer.Load() == nil {
		e.refuse(w, r, nil, http.StatusServiceUnavailable, "redis-away", "Not ready yet. Try again when Retry-After says.")
		return
	}
	q := &request{
		Request: r, edge: e, site: s, client: e.trust.client(r), rawPath: rawPath, rawQuery: rawQuery,
	}
	if reserved(rawPath) {
		e.serveAPI(w, q, e.api)
		return
	}
	m := s.table.match(r.Host, rawPath)
	switch {
	case m.Refuse:
		e.refuse(w, r, nil, http.StatusBadRequest, "ambiguous-path", "This path can be read in more than one way.")
	case e.serveCore(w, q, m):
	case len(m.Rooms) == 0:
		e.metrics.request("", "no_room")
		e.up.serve(w, r, q.pass(s.upstream, nil))
	case m.Public:
		rm := s.rooms[m.Rooms[0]]
		e.metrics.request(rm.id(), "public")
		e.up.serve(w, r, q.pass(rm.Upstream, rm))
	default:
		e.gate(w, q, m.Rooms)
	}
}

// request is one request with what has been found out about it.
type request struct {
	*http.Request
	edge              *Edge
	site              *site
	client            clientInfo
	rawPath, rawQuery string

	queuePath string // where the queue API was asked, if at an address of the core: see [queuePath]
	owned     bool   // the core owns the path
}

// pass sends a request on; rm is its room, nil if it has none.
func (q *request) pass(to *url.URL, rm *room) pass {
	return pass{
		Target: to, RawPath: q.rawPath, RawQuery: q.rawQuery, Client: q.client, CoreCookies: q.trusts(to, rm),
		OnError: func(w http.ResponseWriter, r *http.Request, status int, slug string) {
			q.edge.refuse(w, r, rm, status, slug, upstreamDetails[slug])
		},
	}
}

// trusts reports whether an upstream gets the core's cookie. Where a room's own cookie has that name nobody does.
func (q *request) trusts(to *url.URL, rm *room) bool {
	return isCore(to) || rm != nil && rm.ForwardToken && q.site.byID[customerRoom] == nil
}

var upstreamDetails = map[string]string{
	"upstream-down":    "The site behind the waiting room does not answer. A place in line is kept.",
	"upstream-timeout": "The site behind the waiting room took too long. A place in line is kept.",
	"request-timeout":  "The rest of the request did not come.",
	"too-large":        "The request is larger than is taken here.",
	"bad-request":      "The request could not be read to its end.",
}

// reserved reports whether a path is ours: its first segment is _ropeline, however it is spelled.
func reserved(rawPath string) bool {
	segment, _, _ := strings.Cut(rawPath[1:], "/")
	return sameSegment(segment, "_ropeline")
}
