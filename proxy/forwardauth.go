package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// auth answers for another proxy that asks whether a request may pass (nginx auth_request, Traefik, Caddy, Envoy,
// HAProxy): 204 with our headers, or 401; with ?mode=redirect 302 to the room's page. The target comes in X-Forwarded-Host
// and X-Forwarded-Uri (or X-Original-URI) of a trusted proxy; without them the question cannot be answered: 403. A proxy
// sets one of the two URIs and may pass the client's own header of the other name on, so both must agree where both are there.
//
// Envoy asks with the visitor's own method, Host and target, put behind a prefix: /_ropeline/auth/the/path?query.
func (e *Edge) auth(w http.ResponseWriter, q *request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set(stateHeader, "queue")
	host, rawPath, ok := q.asked()
	if !ok {
		e.refuse(w, q.Request, nil, http.StatusForbidden, "bad-target", "Only a trusted proxy may ask, with X-Forwarded-Host and X-Forwarded-Uri.")
		return
	}
	m := q.site.table.match(host, rawPath)
	switch {
	case m.Refuse:
		w.WriteHeader(http.StatusForbidden)
		return
	case len(m.Rooms) == 0, m.Public, reserved(rawPath):
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var first *visit
	for _, i := range m.Rooms {
		rm := q.site.rooms[i]
		v, err := e.admitted(q, rm)
		if err != nil {
			e.unauthorized(w, q, rm)
			return
		}
		if v.fresh {
			http.SetCookie(w, v.cookie(q.client.TLS))
		}
		if first == nil {
			first = v
		}
	}
	h.Set(visitorHeader, first.Visitor)
	h.Set(roomHeader, first.room.id())
	h.Set(placeHeader, strconv.FormatInt(first.Number, 10))
	h.Set(sessionHeader, first.ID)
	w.WriteHeader(http.StatusNoContent)
}

func (e *Edge) unauthorized(w http.ResponseWriter, q *request, rm *room) {
	e.metrics.request(rm.id(), "refused")
	back, named := q.askedURI()
	if named && !q.behindPrefix() && q.URL.Query().Get("mode") == "redirect" {
		w.Header().Set("Location", "/_ropeline/rooms/"+rm.id()+"/page?return="+url.QueryEscape(back))
		w.WriteHeader(http.StatusFound)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// asked is the target that a trusted proxy asks about, judged as if it had come here.
func (q *request) asked() (host, rawPath string, ok bool) {
	if !q.client.Trusted {
		return "", "", false
	}
	if q.behindPrefix() {
		return q.judge(q.Request.Host, q.Method, strings.TrimPrefix(q.rawPath, authPrefix)+q.rawQuery)
	}
	target, ok := q.askedURI()
	if !ok {
		return "", "", false
	}
	method := q.Header.Get("X-Forwarded-Method")
	if method == "" {
		method = q.Header.Get("X-Original-Method")
	}
	if method == "" {
		method = http.MethodGet
	}
	host = q.Header.Get("X-Forwarded-Host")
	if host == "" {
		host = q.Request.Host
	}
	if i := strings.IndexByte(host, ','); i >= 0 {
		return "", "", false
	}
	return q.judge(host, method, target)
}

func (q *request) judge(host, method, target string) (canonical, rawPath string, ok bool) {
	judged := &http.Request{Method: method, RequestURI: target, Host: host, Header: http.Header{}, TLS: q.TLS}
	rawPath, _, refused := judgeTarget(judged)
	return judged.Host, rawPath, refused == nil
}

// authPrefix, followed by a path, is what Envoy asks.
const authPrefix = "/_ropeline/auth"

func (q *request) behindPrefix() bool { return strings.HasPrefix(q.rawPath, authPrefix+"/") }

// askedURI is the one target that the headers name.
func (q *request) askedURI() (target string, ok bool) {
	for _, v := range slices.Concat(q.Header.Values("X-Forwarded-Uri"), q.Header.Values("X-Original-Uri")) {
		if v == "" || target != "" && v != target {
			return "", false
		}
		target = v
	}
	return target, target != ""
}
