package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ropeline/admitter/token"
	"ropeline/queue"
)

// mostTokens bounds how many tokens of one request are looked at.
const mostTokens = 8

// visit is an admitted visitor's request: which token it came with, and what to tell the visitor about a newer one.
type visit struct {
	room  *room
	token string
	token.Claims
	fresh bool // the token is newer than the one the visitor sent
}

// errCustomer refuses the session of another customer.
var errCustomer = errors.New("proxy: session of another customer")

// reason is the word for a refusal in the metrics.
func reason(err error) string {
	if errors.Is(err, errCustomer) {
		return "other_customer"
	}
	return token.Reason(err)
}

// gate lets a request through that brings an access token for each of the rooms (several only for an ambiguous path,
// where nobody is admitted at once).
func (e *Edge) gate(w http.ResponseWriter, q *request, rooms []int) {
	var admitted *visit
	for _, i := range rooms {
		rm := q.site.rooms[i]
		v, err := e.admitted(q, rm)
		if err != nil {
			e.metrics.refusal(rm.id(), reason(err))
			if len(rooms) == 1 {
				v = e.atOnce(q, rm)
			}
			if v == nil {
				e.park(w, q, rm)
				return
			}
		}
		if admitted == nil {
			admitted = v
		}
	}
	e.metrics.request(admitted.room.id(), "passed")
	e.through(w, q, admitted, admitted.room.Upstream)
}

// admitted returns the visit of the first valid token of the request; the error is the last refusal.
func (e *Edge) admitted(q *request, rm *room) (*visit, error) {
	return e.admittedBy(q, rm, q.tokens(rm))
}

// admittedBy looks at these tokens alone.
func (e *Edge) admittedBy(q *request, rm *room, tokens []string) (*visit, error) {
	refused := token.ErrMissing
	for _, tok := range tokens {
		c, err := e.tokens.Verify(rm.id(), tok)
		switch {
		case err != nil:
			refused = err
		case rm.Line.Ended(c.ID):
			refused = token.ErrExpired
		case !e.sameCustomer(q, rm, c):
			refused = errCustomer
		default:
			return e.renew(q.Context(), &visit{room: rm, token: tok, Claims: c})
		}
	}
	return nil, refused
}

// tokens are the access tokens that came with a request: of X-Queue-Token, and of every cookie with the room's name.
func (q *request) tokens(rm *room) []string {
	all := slices.Clone(q.Header.Values(tokenHeader))
	for _, name := range []string{secureCookiePrefix + accessCookie(rm.id()), accessCookie(rm.id())} {
		for _, c := range q.CookiesNamed(name) {
			all = append(all, c.Value)
		}
	}
	return all[:min(len(all), mostTokens)]
}

// sameCustomer holds a session of a room with an identity rule to the customer it was given to.
func (e *Edge) sameCustomer(q *request, rm *room, c token.Claims) bool {
	if rm.Identity == "" {
		return true
	}
	digests, ok := e.digests(q, rm)
	return ok && slices.Contains(digests, c.Visitor)
}

// digests of the customer's identity; ok is false if the room has an identity rule and the request names nobody.
func (e *Edge) digests(q *request, rm *room) (digests []string, ok bool) {
	if rm.Identity == "" {
		return nil, true
	}
	values := q.Header.Values(rm.Identity)
	if !q.client.Trusted || len(values) != 1 || values[0] == "" {
		return nil, false
	}
	return e.sealer.Load().Digests(rm.id(), values[0]), true
}

// renew makes a provisional session a full one, and lengthens a sliding one at half life: by one call to Redis, without which
// the node decides alone. If that fails otherwise the visit goes on with the token it has.
func (e *Edge) renew(ctx context.Context, v *visit) (*visit, error) {
	if newer, ok := e.visits.get(v.room.id(), v.ID); ok && newer.Expires.After(v.Expires) {
		v.token, v.Claims, v.fresh = newer.token, newer.Claims, true
	}
	var length, most time.Duration
	switch left := v.Expires.Sub(v.room.Line.Now()); {
	case v.Outage:
		return v, nil
	case v.Provisional:
		length, most = v.room.Session, v.room.Session+v.room.Claim
	case v.room.Sliding && left < v.room.Session/2 && v.Expires.Before(v.Started.Add(v.room.SessionMax)):
		length, most = v.room.Session, v.room.SessionMax
	default:
		return v, nil
	}
	longer, err := e.lengthen(ctx, v, length, most)
	switch {
	case errors.Is(err, queue.ErrUsed):
		return nil, token.ErrExpired
	case err != nil:
		return v, nil
	}
	return longer, nil
}

// lengthen renews a session, once for all requests that ask for it at the same time, and signs the longer token.
func (e *Edge) lengthen(ctx context.Context, v *visit, length, most time.Duration) (*visit, error) {
	longer, err := e.visits.once(v.room.id(), v.ID, func() (*visit, error) {
		if newer, ok := e.visits.get(v.room.id(), v.ID); ok && newer.Expires.After(v.Expires) {
			return newer, nil // another request has just done it
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		grant, err := v.room.Line.Renew(ctx, queue.Session{Place: v.place(), Started: v.Started, Ends: v.Expires}, length, most)
		if err != nil {
			if !errors.Is(err, queue.ErrUsed) {
				e.log.Warn("session not renewed", "room", v.room.id(), "err", err)
			}
			return nil, err
		}
		longer, err := e.signed(v.room, v.Visitor, grant)
		if err != nil {
			return nil, err
		}
		e.visits.put(v.room.id(), longer)
		return longer, nil
	})
	if err == nil {
		longer.room = v.room
	}
	return longer, err
}

// place of a session: all that Redis needs to know of it.
func (v *visit) place() queue.Place {
	p := queue.Place{ID: v.ID, Generation: v.Generation, Number: v.Number}
	if v.room.Identity != "" {
		p.Digest = v.Visitor
	}
	return p
}

// signed is the visit that a grant allows; visitor is whom the token names. Its end is the token's: whole seconds.
func (e *Edge) signed(rm *room, visitor string, g queue.Grant) (*visit, error) {
	c := token.Claims{
		Room: rm.id(), Visitor: visitor, ID: g.Place.ID, Number: g.Place.Number, Generation: g.Place.Generation,
		Issued: g.Issued, Expires: g.Expires.Truncate(time.Second), Started: g.Started, Provisional: g.Provisional,
	}
	tok := g.Token
	if tok == "" {
		var err error
		if tok, err = e.tokens.Sign(c); err != nil {
			e.log.Error("access token not signed", "room", rm.id(), "err", err)
			return nil, err
		}
	}
	return &visit{room: rm, token: tok, Claims: c, fresh: true}, nil
}

// atOnce admits a browser that navigates, if nobody waits and there is room; nil if not. What says no costs no Redis call
// until the snapshot changes.
func (e *Edge) atOnce(q *request, rm *room) *visit {
	if !navigation(q.Request) {
		return nil
	}
	digests, ok := e.digests(q, rm)
	if !ok {
		return nil
	}
	if rm.Line.Away() {
		return e.outage(rm, first(digests))
	}
	snap := rm.Line.Snapshot()
	if snap == nil || !snap.Spare(rm.Line.Now()) || rm.noRoom.Load() == snap {
		return nil
	}
	turn, err := rm.Line.Enter(q.Context(), queue.Visitor{Digests: digests})
	if err != nil || turn.Grant == nil {
		if errors.Is(err, queue.ErrNoRoom) {
			rm.noRoom.Store(snap)
		}
		return nil
	}
	v, err := e.signed(rm, visitorOf(turn.Place), *turn.Grant)
	if err != nil {
		return nil
	}
	e.metrics.join(rm.id(), "at_once")
	return v
}

// visitorOf is whom an access token names: the customer where the room has an identity rule, else the place's id.
func visitorOf(p queue.Place) string {
	if p.Digest != "" {
		return p.Digest
	}
	return p.ID
}

// first is the digest that names the customer, "" for nobody.
func first(digests []string) string {
	if len(digests) == 0 {
		return ""
	}
	return digests[0]
}

// outage lets a visitor in with a marked token while Redis is away, where the organizer said so and the room was open when
// last heard of. The token names the customer, or nobody for "".
func (e *Edge) outage(rm *room, customer string) *visit {
	now, snap := rm.Line.Now(), rm.Line.Snapshot()
	if !rm.OutageOpen || snap == nil || snap.State(now) != string(queue.Open) {
		return nil
	}
	id := queue.NewID()
	c := token.Claims{Room: rm.id(), Visitor: cmp.Or(customer, id), ID: id, Issued: now, Expires: now.Add(rm.Session), Outage: true}
	tok, err := e.tokens.Sign(c)
	if err != nil {
		e.log.Error("access token not signed", "room", rm.id(), "err", err)
		return nil
	}
	e.metrics.join(rm.id(), "outage")
	return &visit{room: rm, token: tok, Claims: c, fresh: true}
}

// through passes an admitted request on to an upstream, and handles what that says about the session.
func (e *Edge) through(w http.ResponseWriter, q *request, v *visit, to *url.URL) {
	p := q.pass(to, v.room)
	p.Visitor, p.Room, p.Place, p.Session = v.Visitor, v.room.id(), strconv.FormatInt(v.Number, 10), v.ID
	if v.room.ForwardToken || isCore(to) {
		p.Token = v.token
	}
	p.Until = func() time.Time {
		if newer, ok := e.visits.get(v.room.id(), v.ID); ok && newer.Expires.After(v.Expires) {
			return e.local(v.room, newer.Expires)
		}
		return e.local(v.room, v.Expires)
	}
	stop := func() {}
	defer func() { stop() }()
	began := time.Now()
	p.OnResponse = func(res *http.Response) error {
		e.metrics.upstream(v.room.id(), res.StatusCode, time.Since(began))
		e.answered(res, q, v)
		if lasts(res) {
			exchangeOf(res.Request.Context()).pass.Ended, stop = v.room.watch(q.Context(), v.ID)
		}
		return nil
	}
	refuse := p.OnError
	p.OnError = func(w http.ResponseWriter, r *http.Request, status int, slug string) {
		if v.fresh { // a slot was taken: the visitor's next try must not take another
			http.SetCookie(w, v.cookie(q.client.TLS))
		}
		refuse(w, r, status, slug)
	}
	e.up.serve(w, q.Request, p)
}

// local turns an instant of Redis's clock into one of this node's.
func (e *Edge) local(rm *room, at time.Time) time.Time { return time.Now().Add(at.Sub(rm.Line.Now())) }

// answered acts on the upstream's X-Ropeline-Session and keeps the answer out of shared caches.
func (e *Edge) answered(res *http.Response, q *request, v *visit) {
	res.Header.Del(tokenHeader)
	switch strings.ToLower(strings.TrimSpace(res.Header.Get(sessionHeader))) {
	case "end":
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), time.Second)
		defer cancel()
		if _, err := v.room.Line.Leave(ctx, v.place(), v.Expires); err != nil {
			e.unwritten.say(time.Now(), func(left int) {
				e.log.Warn("end of a session not written", "room", v.room.id(), "err", err, "left_out", left)
			})
		}
		for _, c := range q.noCookies(v.room) {
			res.Header.Add("Set-Cookie", c.String())
		}
		e.metrics.ended(v.room.id(), "upstream")
		v.fresh = false
	case "extend":
		if !v.extensible() {
			break
		}
		if longer, err := e.lengthen(q.Context(), v, v.room.Session, v.room.SessionMax); err == nil {
			v = longer
		}
	}
	if v.fresh {
		res.Header.Add("Set-Cookie", v.cookie(q.client.TLS).String())
		res.Header.Set(tokenHeader, v.token)
	}
	if v.fresh || !q.owned || res.Header.Get("Cache-Control") == "" { // anybody may see what the core owns: it says who may keep it
		keepPrivate(res, v.fresh)
	}
}

// extensible reports whether the site's wish to extend changes anything: not just after it did (one call for a tenth of a
// session, however often the site says so), not at the end of the longest session, and not without a place in Redis.
func (v *visit) extensible() bool {
	return !v.Outage && v.Expires.Before(v.Started.Add(v.room.SessionMax)) &&
		v.Expires.Sub(v.room.Line.Now()) <= v.room.Session*9/10
}

// keepPrivate sees to it that no shared cache shows a gated answer to somebody who was not admitted. What the upstream
// marked as fresh for browsers stays so for this browser, pages and answers with our cookies are never stored.
func keepPrivate(res *http.Response, personal bool) {
	h := res.Header
	for _, name := range []string{"Surrogate-Control", "CDN-Cache-Control", "Cloudflare-CDN-Cache-Control"} {
		h.Del(name)
	}
	was := strings.ToLower(strings.Join(h.Values("Cache-Control"), ","))
	if personal || !strings.Contains(was, "max-age") && !strings.Contains(was, "immutable") ||
		strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/html") {
		h.Set("Cache-Control", "no-store")
		return
	}
	kept := []string{"private"}
	for item := range strings.SplitSeq(was, ",") {
		item = strings.TrimSpace(item)
		if item != "" && item != "public" && item != "private" && !strings.HasPrefix(item, "s-maxage") {
			kept = append(kept, item)
		}
	}
	h.Set("Cache-Control", strings.Join(kept, ", "))
}

// lasts reports whether an answer may outlive the session: a socket or an event stream.
func lasts(res *http.Response) bool {
	return res.StatusCode == http.StatusSwitchingProtocols || eventStream(res.Header)
}

// navigation reports whether a request is a person opening a page: a GET that the browser calls a navigation, and not
// fetched ahead of need. Clients that send no Sec-Fetch-Mode are taken by their Accept.
func navigation(r *http.Request) bool {
	if r.Method != http.MethodGet || len(r.Header["Upgrade"]) > 0 {
		return false
	}
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if v := strings.ToLower(r.Header.Get(name)); strings.Contains(v, "prefetch") || strings.Contains(v, "preview") {
			return false
		}
	}
	return wantsPage(r)
}

// wantsPage reports whether a person looks at the answer: to a navigation, or to a form.
func wantsPage(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// park answers a request that was not let through: the queue page to a browser that navigates, 403 to anything else.
func (e *Edge) park(w http.ResponseWriter, q *request, rm *room) {
	if navigation(q.Request) {
		e.metrics.request(rm.id(), "parked")
		e.queuePage(w, q, rm, "no-store")
		return
	}
	e.metrics.request(rm.id(), "refused")
	e.refuse(w, q.Request, rm, http.StatusForbidden, "not-admitted", "Join the line at the address in join, then come back with the access token.")
}
