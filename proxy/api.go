package proxy

import (
	"context"
	"net/http"
	"strings"
)

// routes are the addresses under /_ropeline/. Nothing there is ever passed on.
func (e *Edge) routes() *http.ServeMux {
	mux := http.NewServeMux()
	e.queueRoutes(mux, "/_ropeline")
	mux.Handle("GET /_ropeline/rooms/{room}/wait", inRoom(e.waitPage))
	mux.Handle("GET /_ropeline/rooms/{room}/page", inRoom(func(w http.ResponseWriter, q *request, rm *room) {
		e.queuePage(w, q, rm, "public, max-age=60")
	}))
	mux.HandleFunc("GET /_ropeline/auth", func(w http.ResponseWriter, r *http.Request) { e.auth(w, requestOf(r)) })
	mux.HandleFunc("GET /_ropeline/.well-known/jwks.json", e.jwks)
	return mux
}

// eventRoutes are the addresses of the queue API where the upstream is the booking core: see [queuePath].
func (e *Edge) eventRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	e.queueRoutes(mux, "")
	e.queueRoutes(mux, "/v1")
	return mux
}

func (e *Edge) queueRoutes(mux *http.ServeMux, prefix string) {
	for _, route := range []struct {
		method, path string
		serve        func(http.ResponseWriter, *request, *room)
	}{
		{"POST", "queue", e.join},
		{"GET", "queue/{queueId}", e.poll},
		{"DELETE", "queue/{queueId}", e.leave},
		{"POST", "queue/me/leave", e.leave},
		{"GET", "status", e.status},
	} {
		mux.Handle(route.method+" "+prefix+"/events/{room}/"+route.path, inRoom(route.serve))
	}
	for _, path := range []string{"queue", "queue/{queueId}", "queue/me/leave", "status"} {
		mux.HandleFunc("OPTIONS "+prefix+"/events/{room}/"+path, preflight)
	}
}

type requestKey struct{}

func requestOf(r *http.Request) *request {
	q := r.Context().Value(requestKey{}).(*request)
	q.Request = r
	return q
}

// serveAPI finds the handler of a path of ours among the routes. Its answers are never from an upstream.
func (e *Edge) serveAPI(w http.ResponseWriter, q *request, routes *http.ServeMux) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(stateHeader, "queue")
	r := q.WithContext(context.WithValue(q.Context(), requestKey{}, q))
	if q.behindPrefix() { // any method, and a path that the mux must not clean
		e.auth(w, requestOf(r))
		return
	}
	h, pattern := routes.Handler(r)
	if pattern == "" {
		e.noRoute(w, q, h)
		return
	}
	routes.ServeHTTP(w, r)
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
		rm := q.named()
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

// named is the room that the path names, nil for none. At the core's addresses the id is first of all an event's.
func (q *request) named() *room {
	id := q.PathValue("room")
	if q.queuePath != "" {
		if rm := q.site.byID[q.edge.core.Room(id)]; rm != nil {
			return rm
		}
	}
	return q.site.byID[id]
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
	if rm := q.named(); rm != nil && rm.allowOrigin(w, r) {
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
