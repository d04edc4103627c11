package proxy

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ropeline/queue"
	"ropeline/web"
)

// queuePage sends the room's static page: the same bytes for every visitor.
func (e *Edge) queuePage(w http.ResponseWriter, q *request, rm *room, cacheControl string) {
	h := w.Header()
	ourOwn(h, cacheControl)
	html(h, rm.page.CSP)
	h.Add("Vary", "Accept-Encoding")
	body := rm.page.Body
	if takesGzip(q.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = rm.page.Gzip
	}
	if cacheControl != "no-store" {
		h.Set("ETag", rm.page.ETag)
		if strings.Contains(q.Header.Get("If-None-Match"), strings.TrimPrefix(rm.page.ETag, "W/")) {
			h.Del("Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if q.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// ourOwn marks an answer as the edge's own: nothing for search engines, nothing to be guessed at.
func ourOwn(h http.Header, cacheControl string) {
	h.Set("Cache-Control", cacheControl)
	h.Set(stateHeader, "queue")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("X-Content-Type-Options", "nosniff")
}

// html marks a page, with the policy that names its inline parts.
func html(h http.Header, csp string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", csp)
	h.Set("Referrer-Policy", "no-referrer")
}

func takesGzip(accept string) bool {
	for item := range strings.SplitSeq(accept, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight = strings.ReplaceAll(weight, " ", "")
			return weight != "q=0" && weight != "q=0.0"
		}
	}
	return false
}

// waitPage is the journey without JavaScript: a small personal page that asks again by itself.
func (e *Edge) waitPage(w http.ResponseWriter, q *request, rm *room) {
	view := web.WaitView{
		Room: rm.text(), Lang: web.Language(q.Header.Get("Accept-Language"), rm.Languages), Ahead: -1, Now: rm.local(rm.Line.Now()),
	}
	if v, err := e.admitted(q, rm); err == nil {
		view.State, view.Number = string(queue.Admitted), v.Number
		if v.fresh {
			http.SetCookie(w, v.cookie(q.client.TLS))
		}
	} else if p, err := e.placeOf(q, rm, ""); err == nil {
		e.waiting(w, q, rm, p, &view)
	} else if s := rm.Line.Snapshot(); s != nil && (s.Mode == queue.Closed || s.Mode == queue.Full) {
		view.State, view.Reason = string(s.Mode), s.Reason
	}
	h := w.Header()
	ourOwn(h, "no-store")
	html(h, web.PlainCSP())
	if view.Refresh > 0 {
		h.Set("Refresh", strconv.Itoa(view.Refresh))
	}
	if err := web.Wait(w, view); err != nil {
		e.log.Debug("waiting page not written", "room", rm.id(), "err", err)
	}
}

// waiting fills in what a place's poll says, and hands the access cookie out when the turn has come.
func (e *Edge) waiting(w http.ResponseWriter, q *request, rm *room, p queue.Place, view *web.WaitView) {
	report, v, err := e.turnOf(q.Context(), rm, p)
	if err != nil {
		report = queue.Report{State: queue.Holding, Place: p, Ahead: -1, PollAfter: 5 * time.Second}
	}
	e.metrics.poll(rm.id(), report.State)
	view.State, view.Number, view.Ahead, view.Reason = string(report.State), p.Number, int64(report.Ahead), report.Reason
	view.ETALow, view.ETAHigh, view.OpensAt = report.Wait.Low, report.Wait.High, rm.local(report.OpensAt)
	view.Refresh = int((report.PollAfter + time.Second - 1) / time.Second)
	if v != nil {
		http.SetCookie(w, v.cookie(q.client.TLS))
		view.Refresh = 0
	}
}

// local shows an instant in the room's time zone; the zero time stays zero.
func (r *room) local(at time.Time) time.Time {
	if at.IsZero() || r.Zone == nil {
		return at.UTC()
	}
	return at.In(r.Zone)
}

// retryAfter is a jittered number of seconds.
func retryAfter() string { return strconv.Itoa(2 + rand.IntN(4)) }
