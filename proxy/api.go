package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ropeline/queue"
)

// mostBody bounds the body of a queue API request.
const mostBody = 4 << 10

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

// placeAnswer is what joins and polls say.
type placeAnswer struct {
	QueueID     string     `json:"queueId,omitempty"` // absent only from an admission without Redis
	State       string     `json:"state"`
	Number      int64      `json:"number,omitempty"`
	Ahead       *int       `json:"ahead,omitempty"`
	ETA         *etaAnswer `json:"etaSeconds,omitempty"`
	PollAfter   int64      `json:"pollAfterMs,omitempty"`
	Waiting     int        `json:"waiting,omitempty"`
	OpensAt     string     `json:"opensAt,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	AccessToken string     `json:"accessToken,omitempty"`
	ExpiresAt   string     `json:"expiresAt,omitempty"`
}

type etaAnswer struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// join puts the visitor into the line, or finds the place it has.
func (e *Edge) join(w http.ResponseWriter, q *request, rm *room) {
	form, queueID, problem := readJoin(w, q.Request)
	if problem != "" {
		e.metrics.join(rm.id(), "bad")
		status := http.StatusBadRequest
		if problem == "too-large" {
			status = http.StatusRequestEntityTooLarge
		}
		e.refuse(w, q.Request, rm, status, problem, `The body is empty or JSON of at most 4 KiB: {} or {"queueId": "..."}.`)
		return
	}
	digests, ok := e.digests(q, rm)
	if !ok {
		e.metrics.join(rm.id(), "identity")
		e.refuse(w, q.Request, rm, http.StatusForbidden, "identity-required", "This room gives one place to each customer: sign in at the site first.")
		return
	}
	if v, err := e.admitted(q, rm); err == nil && !v.Outage {
		e.metrics.join(rm.id(), "admitted")
		e.tell(w, q, rm, http.StatusCreated, form, queue.Report{State: queue.Admitted, Place: v.place(), Ahead: -1}, v)
		return
	}
	visitor := queue.Visitor{Digests: digests}
	if p, err := e.placeOf(q, rm, queueID); err == nil && sameDigest(p, digests) {
		visitor.Place = &p
	} else if queueID != "" {
		e.metrics.join(rm.id(), "bad")
		e.refuse(w, q.Request, rm, http.StatusNotFound, "place-unknown", "This queueId is not a place in this room.")
		return
	}
	turn, err := rm.Line.Join(q.Context(), visitor)
	if err != nil {
		if v := e.joinOutage(rm, digests, err); v != nil {
			e.tell(w, q, rm, http.StatusCreated, form, queue.Report{State: queue.Admitted, Ahead: -1}, v)
			return
		}
		e.joinRefused(w, q, rm, err)
		return
	}
	report := rm.Line.Report(turn)
	v, err := e.granted(rm, report)
	if err != nil {
		e.joinRefused(w, q, rm, err)
		return
	}
	e.metrics.join(rm.id(), string(joinResult(report)))
	e.tell(w, q, rm, http.StatusCreated, form, report, v)
}

// joinOutage is the visit of somebody who joins while Redis is away, in a room that is open even then.
func (e *Edge) joinOutage(rm *room, digests []string, err error) *visit {
	if !errors.Is(err, queue.ErrAway) || !rm.Line.Away() {
		return nil
	}
	return e.outage(rm, first(digests))
}

func joinResult(r queue.Report) queue.State {
	if r.State == queue.Admitted {
		return queue.Admitted
	}
	return queue.Waiting
}

// sameDigest keeps a place of one customer from serving another on the same browser.
func sameDigest(p queue.Place, digests []string) bool {
	if len(digests) == 0 {
		return p.Digest == ""
	}
	for _, d := range digests {
		if d == p.Digest {
			return true
		}
	}
	return false
}

// readJoin reads the body of a join. form is true for a browser's form; problem is a slug.
func readJoin(w http.ResponseWriter, r *http.Request) (form bool, queueID, problem string) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return false, "", "too-large"
	case err != nil:
		return false, "", "bad-request"
	}
	r.ContentLength = 0 // read to its end: a refusal need not close the connection
	if kind == "application/x-www-form-urlencoded" || kind == "multipart/form-data" {
		return true, "", ""
	}
	queueID, err = parseJoin(body)
	if err != nil {
		return false, "", "bad-request"
	}
	return false, queueID, ""
}

// parseJoin reads {} or {"queueId": "..."}; nothing at all is {}.
func parseJoin(body []byte) (queueID string, err error) {
	if len(strings.TrimSpace(string(body))) == 0 {
		return "", nil
	}
	var in struct {
		QueueID *string `json:"queueId"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return "", err
	}
	if trimmed := strings.TrimSpace(string(body)); trimmed[0] != '{' {
		return "", errors.New("not an object")
	}
	if in.QueueID == nil {
		return "", nil
	}
	return *in.QueueID, nil
}

func (e *Edge) joinRefused(w http.ResponseWriter, q *request, rm *room, err error) {
	result, status, slug, detail := "away", http.StatusServiceUnavailable, "redis-away",
		"Nobody can join at the moment. Try again when Retry-After says."
	switch {
	case errors.Is(err, context.Canceled):
		w.WriteHeader(statusClientGone)
		return
	case errors.Is(err, queue.ErrClosed):
		result, status, slug, detail = "closed", http.StatusConflict, "room-closed", "The room takes no arrivals."
	case errors.Is(err, queue.ErrLineFull):
		result, slug, detail = "full", "line-full", "The line holds as many visitors as this store is good for."
	case errors.Is(err, queue.ErrBusy):
		result, detail = "busy", "Too many join at this moment. Try again when Retry-After says."
	case !errors.Is(err, queue.ErrAway):
		e.log.Error("join", "room", rm.id(), "err", err)
	}
	e.metrics.join(rm.id(), result)
	e.refuse(w, q.Request, rm, status, slug, detail)
}

// placeOf opens the place token of a request: queueID, or else that of the place cookie.
func (e *Edge) placeOf(q *request, rm *room, queueID string) (queue.Place, error) {
	sealer, now := e.sealer.Load(), rm.Line.Now()
	if queueID != "" {
		return sealer.Open(rm.id(), queueID, now)
	}
	for _, c := range q.CookiesNamed(placeCookie(rm.id())) {
		if p, err := sealer.Open(rm.id(), c.Value, now); err == nil {
			return p, nil
		}
	}
	return queue.Place{}, queue.ErrPlaceToken
}

// named is the place that the path names: a place token, or "me" for the place cookie. It answers if there is none.
func (e *Edge) named(w http.ResponseWriter, q *request, rm *room) (p queue.Place, ok bool) {
	queueID, slug, detail := q.PathValue("queueId"), "place-unknown", "This queueId is not a place in this room."
	if queueID == "me" || queueID == "" {
		queueID, slug, detail = "", "no-place", "Join first: this browser has no place in this room."
	}
	p, err := e.placeOf(q, rm, queueID)
	if err != nil {
		e.metrics.poll(rm.id(), "unknown")
		e.refuse(w, q.Request, rm, http.StatusNotFound, slug, detail)
	}
	return p, err == nil
}

func (e *Edge) poll(w http.ResponseWriter, q *request, rm *room) {
	p, ok := e.named(w, q, rm)
	if !ok {
		return
	}
	report, v, err := e.turnOf(q.Context(), rm, p)
	switch {
	case errors.Is(err, context.Canceled):
		w.WriteHeader(statusClientGone)
		return
	case err != nil:
		if !errors.Is(err, queue.ErrBusy) {
			e.log.Error("poll", "room", rm.id(), "err", err)
		}
		e.refuse(w, q.Request, rm, http.StatusServiceUnavailable, "redis-away", "Your place is kept. Ask again when Retry-After says.")
		return
	}
	e.metrics.poll(rm.id(), report.State)
	e.tell(w, q, rm, http.StatusOK, false, report, v)
}

// turnOf polls for a place; the visit is not nil if it is admitted. Where the room is open even without Redis, whoever
// waits is let in as well as whoever comes.
func (e *Edge) turnOf(ctx context.Context, rm *room, p queue.Place) (queue.Report, *visit, error) {
	report, err := rm.Line.Poll(ctx, p)
	if err != nil {
		return report, nil, err
	}
	if report.State == queue.Holding && rm.Line.Away() {
		if v := e.outage(rm, p.Digest); v != nil {
			return queue.Report{State: queue.Admitted, Place: p, Ahead: -1}, v, nil
		}
	}
	v, err := e.granted(rm, report)
	return report, v, err
}

// granted signs the access token of an admitted place; nil if it is not admitted.
func (e *Edge) granted(rm *room, report queue.Report) (*visit, error) {
	if report.Grant == nil {
		return nil, nil
	}
	return e.signed(rm, visitorOf(report.Place), *report.Grant)
}

// tell answers a join or a poll: with the place token and, if admitted, the access token, as cookies too. A form is sent on
// to the waiting page.
func (e *Edge) tell(w http.ResponseWriter, q *request, rm *room, status int, form bool, report queue.Report, v *visit) {
	sealed := q.PathValue("queueId")
	byCookie, aged := sealed == "" || sealed == "me", aging(report, rm.Line.Now())
	if (byCookie || aged) && report.Place.Number > 0 {
		if aged || report.Place.Issued.IsZero() {
			report.Place.Issued = rm.Line.Now()
		}
		sealed = e.sealer.Load().Seal(rm.id(), report.Place)
	}
	if (status == http.StatusCreated || byCookie && aged) && sealed != "" {
		c := placeCookieOf(rm.id(), q.client.TLS)
		c.Value, c.MaxAge = sealed, int(queue.PlaceLife/time.Second)
		http.SetCookie(w, c)
	}
	if v != nil {
		http.SetCookie(w, v.cookie(q.client.TLS))
	}
	if form {
		w.Header().Set("Location", waitPath(rm.id()))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	a := placeAnswer{
		QueueID: sealed, State: string(report.State), Number: report.Place.Number,
		PollAfter: report.PollAfter.Milliseconds(), Waiting: report.Waiting, Reason: report.Reason,
	}
	if report.Ahead >= 0 {
		a.Ahead = &report.Ahead
	}
	if report.Wait.High > 0 {
		a.ETA = &etaAnswer{Low: int64(report.Wait.Low / time.Second), High: int64((report.Wait.High + time.Second - 1) / time.Second)}
	}
	if !report.OpensAt.IsZero() {
		a.OpensAt = report.OpensAt.UTC().Format(time.RFC3339)
	}
	if v != nil {
		a.AccessToken, a.ExpiresAt = v.token, v.Expires.UTC().Format(time.RFC3339)
	}
	if a.PollAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((a.PollAfter+999)/1000, 10))
	}
	writeJSON(w, status, a)
}

// aging reports whether the place token of somebody who still waits has lived half of its life: who waits longer than that,
// before an opening on the day after, gets a younger one of the same place.
func aging(r queue.Report, now time.Time) bool {
	waits := r.State != queue.Admitted && r.State != queue.Expired
	return waits && !r.Place.Issued.IsZero() && now.Sub(r.Place.Issued) > queue.PlaceLife/2
}

func waitPath(room string) string { return "/_ropeline/rooms/" + room + "/wait" }

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// leave gives a place up: the visitor leaves the line, or ends the session.
func (e *Edge) leave(w http.ResponseWriter, q *request, rm *room) {
	place, expires, ok := e.leaving(w, q, rm)
	if !ok {
		return
	}
	if _, err := rm.Line.Leave(q.Context(), place, expires); err != nil {
		e.unwritten.say(time.Now(), func(left int) {
			e.log.Warn("place not given up", "room", rm.id(), "err", err, "left_out", left)
		})
		e.refuse(w, q.Request, rm, http.StatusServiceUnavailable, "redis-away", "Not given up yet. Try again when Retry-After says.")
		return
	}
	e.metrics.ended(rm.id(), "visitor")
	if e.own(q, rm, place) {
		for _, c := range rm.noCookies(q.client.TLS) {
			http.SetCookie(w, c)
		}
	}
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if q.Method == http.MethodPost && kind == "application/x-www-form-urlencoded" {
		w.Header().Set("Location", waitPath(rm.id()))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// own reports whether a place that was given up is the one that the client's cookies speak of.
func (e *Edge) own(q *request, rm *room, p queue.Place) bool {
	if queueID := q.PathValue("queueId"); queueID == "me" || queueID == "" {
		return true
	}
	mine, err := e.placeOf(q, rm, "")
	return err == nil && mine.ID == p.ID
}

// leaving finds what is given up: the session of the access token that came along, if it is the named place's or the place
// is "me", else the place.
func (e *Edge) leaving(w http.ResponseWriter, q *request, rm *room) (p queue.Place, expires time.Time, ok bool) {
	v, err := e.admitted(q, rm)
	me := q.PathValue("queueId") == "me" || q.PathValue("queueId") == ""
	if err == nil && me {
		p = v.place()
		if mine, err := e.placeOf(q, rm, ""); err == nil && mine.ID == v.ID {
			p = mine
		}
		return p, v.Expires, true
	}
	if p, ok = e.named(w, q, rm); !ok {
		return p, time.Time{}, false
	}
	if err == nil && v.ID == p.ID {
		expires = v.Expires
	}
	return p, expires, true
}

func (e *Edge) jwks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(e.tokens.Keys().PublicJWKS())
}
