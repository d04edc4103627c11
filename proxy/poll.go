package proxy

import (
	"context"
	"errors"
	"net/http"

	"ropeline/queue"
)

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
