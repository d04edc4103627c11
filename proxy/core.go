package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ropeline/admitter/token"
)

// Core is the booking core inside this process, as far as the edge must know it: the upstream whose URL has the scheme
// booking. Both methods are safe for concurrent use.
type Core interface {
	// Owns reports whether a raw path is of the core's own API. What it owns is neither parked nor asked for a token: the core
	// itself demands one where there must be one, and learns of one only if it is valid.
	Owns(rawPath string) bool

	// Room returns the room that leads to what an id in such a path names, an event's or a hold's; "" = unknown, or none. Polls
	// ask it about events, so that must be quick; about anything else it is asked only if tokens of several rooms come along.
	Room(id string) string
}

const coreScheme = "booking"

// isCore reports whether an upstream is the booking core.
func isCore(upstream *url.URL) bool { return upstream.Scheme == coreScheme }

// customerCookie is the core's: by it a customer finds a hold again. It goes to the core alone, and to upstreams that are
// trusted with access tokens.
const customerCookie = "ropeline_customer"

// isCustomerCookie knows it by both of its names: without and with TLS.
func isCustomerCookie(name string) bool {
	return name == customerCookie || name == secureCookiePrefix+customerCookie
}

// customerRoom is the room whose access cookie would have that name.
const customerRoom = "customer"

// serveCore answers what is the core's own, and the queue API at the core's addresses; false leaves the request to the gate.
func (e *Edge) serveCore(w http.ResponseWriter, q *request, m match) bool {
	to, rm := q.site.upstream, (*room)(nil)
	switch len(m.Rooms) {
	case 0:
	case 1:
		rm = q.site.rooms[m.Rooms[0]]
		to = rm.Upstream
	default: // an ambiguous path is nobody's own
		return false
	}
	if e.core == nil || !isCore(to) {
		return false
	}
	if q.queuePath = queuePath(q.rawPath); q.queuePath != "" {
		e.serveAPI(w, q, e.events)
		return true
	}
	if q.owned = e.core.Owns(q.rawPath); !q.owned {
		return false
	}
	if v := e.brought(q, rm); v != nil {
		e.metrics.request(v.room.id(), "passed")
		e.through(w, q, v, to)
		return true
	}
	id := ""
	if rm != nil {
		id = rm.id()
	}
	e.metrics.request(id, "core")
	e.up.serve(w, q.Request, q.pass(to, rm))
	return true
}

// brought is the visit of a token that a request for the core brings: of the first room, in the order of coreRooms, that lets
// it in; nil if none does. matched may be nil.
func (e *Edge) brought(q *request, matched *room) *visit {
	claimed := q.claimed()
	left := mostTokens
	for _, rm := range e.coreRooms(q, matched, claimed) {
		tokens := claimed[rm][:min(left, len(claimed[rm]))]
		left -= len(tokens)
		if v, err := e.admittedBy(q, rm, tokens); err == nil {
			return v
		}
	}
	return nil
}

// coreRooms orders the rooms that tokens claim to be for: that of the event, of the header's tokens, of the address, others.
func (e *Edge) coreRooms(q *request, matched *room, claimed map[*room][]string) []*room {
	var order []*room
	add := func(rm *room) {
		if claimed[rm] != nil && !slices.Contains(order, rm) {
			order = append(order, rm)
		}
	}
	if len(claimed) > 1 {
		add(q.site.byID[e.core.Room(namedID(q.rawPath))])
	}
	for _, tok := range q.Header.Values(tokenHeader) {
		add(q.site.byID[token.RoomOf(tok)])
	}
	add(matched)
	if len(order) < len(claimed) {
		for _, rm := range q.site.rooms {
			add(rm)
		}
	}
	return order
}

// claimed are the access tokens of a request by the room they claim to be for, of the rooms that lead to the core.
func (q *request) claimed() map[*room][]string {
	claimed := map[*room][]string{}
	add := func(id, tok string) {
		if rm := q.site.byID[id]; rm != nil && isCore(rm.Upstream) {
			claimed[rm] = append(claimed[rm], tok)
		}
	}
	for _, tok := range q.Header.Values(tokenHeader) {
		add(token.RoomOf(tok), tok)
	}
	cookies := q.Cookies()
	for _, prefix := range []string{secureCookiePrefix, ""} {
		for _, c := range cookies {
			if id, ok := strings.CutPrefix(c.Name, prefix+accessCookie("")); ok {
				add(id, c.Value)
			}
		}
	}
	return claimed
}

// namedID is the id that a path of the core names: the segment behind that of the collection, "" for none.
func namedID(rawPath string) string {
	segments := strings.SplitN(strings.TrimPrefix(withoutVersion(rawPath), "/"), "/", 3)
	if len(segments) < 2 {
		return ""
	}
	return segments[1]
}

// withoutVersion is a path without the /v1 that the core's addresses may have in front.
func withoutVersion(rawPath string) string {
	if rest, ok := strings.CutPrefix(rawPath, "/v1/"); ok {
		return "/" + rest
	}
	return rawPath
}

// queuePath is the part of a raw path up to and with /queue, if it is an address of the queue API at the core's addresses:
// [/v1]/events/{id}/queue, /queue/{queueId}, /queue/me/leave, or /status, for which it is the path; "" if it is none. No
// other spelling of these is one.
func queuePath(rawPath string) string {
	base := withoutVersion(rawPath)
	if !strings.HasPrefix(base, "/events/") {
		return ""
	}
	segments := strings.Split(base[1:], "/")
	for _, s := range segments {
		if !plainSegment(s) {
			return ""
		}
	}
	switch {
	case len(segments) == 3 && segments[2] == "status":
		return rawPath
	case len(segments) >= 3 && len(segments) <= 5 && segments[2] == "queue":
		version := len(rawPath) - len(base)
		return rawPath[:version+len("/events/"+segments[1]+"/queue")]
	}
	return ""
}

// plainSegment is true for a segment that every reader takes for the same: of letters, digits, '-', '_' and '.', and no dots
// alone.
func plainSegment(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return strings.Trim(s, ".") != ""
}

// coreCookies are the core's own cookies among lines of cookies, in the bytes they came in.
func coreCookies(lines []string) (kept []string) {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.Trim(pair, " \t")
			if name, _, _ := strings.Cut(pair, "="); isCustomerCookie(name) {
				kept = append(kept, pair)
			}
		}
	}
	return kept
}
