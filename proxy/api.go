package proxy

import (
	"context"
	"net/http"
	"strings"
)

// routes are the addresses under /_ropeline/. Nothing there is ever passed on.
func (e *Edge) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *request, *room){
		"POST /_ropeline/events/{room}/queue":             e.join,
		"GET /_ropeline/events/{room}/queue/{queueId}":    e.poll,
		"DELETE /_ropeline/events/{room}/queue/{queueId}": e.leave,
		"POST /_ropeline/events/{room}/queue/me/leave":    e.leave,
		"GET /_ropeline/events/{room}/status":             e.status,
		"GET /_ropeline/rooms/{room}/wait":                e.waitPage,
		"GET /_ropeline/rooms/{room}/page": func(w http.ResponseWriter, q *request, rm *room) {
			e.queuePage(w, q, rm, "public, max-age=60")
		},
	} {
		mux.Handle(pattern, inRoom(serve))
	}
	for _, path := range []string{"queue", "queue/{queueId}", "queue/me/leave", "status"} {
		mux.HandleFunc("OPTIONS /_ropeline/events/{room}/"+path, preflight)
	}
	mux.HandleFunc("GET /_ropeline/auth", func(w http.ResponseWriter, r *http.Request) { e.auth(w, requestOf(r)) })
	mux.HandleFunc("GET /_ropeline/.well-known/jwks.json", e.jwks)
	return mux
}

type requestKey struct{}

func requestOf(r *http.Request) *request {
	q := r.Context().Value(requestKey{}).(*request)
	q.Request = r
	return q
}

// serveAPI finds the handler of a reserved path, whose answers are never from an upstream.
func (e *Edge) serveAPI(w http.ResponseWriter, q *request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(stateHeader, "queue")
	r := q.WithContext(context.WithValue(q.Context(), requestKey{}, q))
	if q.behindPrefix() { // any method, and a path that the mux must not clean
		e.auth(w, requestOf(r))
		return
	}
	h, pattern := e.api.Handler(r)
	if pattern == "" {
		e.noRoute(w, q, h)
		return
	}
	e.api.ServeHTTP(w, r)
}

// noRoute tells a wrong method from a wrong address: the mux knows which.
func (e *Edge) noRoute(w http.ResponseWriter, q *request, h http.Handler) {
	probe := &statusOnly{header: http.Header{}}
	h.ServeHTTP(probe, q.Request)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		e.refuse(w, q.Request, nil, http.StatusMethodNotAllowed, "method-not-allowed", "This address takes "+allow+".")
		return
	}
	e.refuse(w, q.Request, nil, http.StatusNotFound, "not-found", "There is nothing at this address.")
}

// statusOnly swallows what the mux would say of a request that it has no route for.
type statusOnly struct{ header http.Header }

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(int)             {}

// inRoom finds the room of a queue API request, and answers what every such route has in common: unknown rooms, pages of
// other sites, CORS.
func inRoom(serve func(http.ResponseWriter, *request, *room)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := requestOf(r)
		rm := q.site.byID[r.PathValue("room")]
		if rm == nil {
			q.edge.refuse(w, r, nil, http.StatusNotFound, "room-unknown", "There is no room of this name.")
			return
		}
		allowed := rm.allowOrigin(w, r)
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !allowed && crossOrigin(r) {
			q.edge.refuse(w, r, rm, http.StatusForbidden, "cross-origin", "Pages of other sites may not do this.")
			return
		}
		serve(w, q, rm)
	})
}

// crossOrigin reports whether a browser says that another site's page makes the request.
//
// A form on our own pages has the Origin "null", because of their Referrer-Policy, and on a site without TLS no
// Sec-Fetch-Site. That is let through: a browser that speaks so keeps SameSite=Lax cookies out of other sites' forms.
func crossOrigin(r *http.Request) bool {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		return false
	}
	var protection http.CrossOriginProtection
	return protection.Check(r) != nil
}

// allowOrigin opens an answer to a page of an allowed origin.
func (r *room) allowOrigin(w http.ResponseWriter, q *http.Request) bool {
	if len(r.cors) == 0 {
		return false
	}
	w.Header().Add("Vary", "Origin")
	origin := q.Header.Get("Origin")
	if !r.cors[strings.ToLower(origin)] {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Allow-Credentials", "true")
	w.Header().Set("Access-Control-Expose-Headers", "Retry-After, X-Ropeline-State, X-Queue-Token")
	return true
}

func preflight(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if rm := q.site.byID[r.PathValue("room")]; rm != nil && rm.allowOrigin(w, r) {
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type, X-Queue-Token")
		w.Header().Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

func (e *Edge) jwks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(e.tokens.Keys().PublicJWKS())
}
