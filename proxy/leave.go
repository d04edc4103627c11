package proxy

import (
	"mime"
	"net/http"
	"time"

	"ropeline/queue"
)

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
		for _, c := range q.noCookies(rm) {
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
