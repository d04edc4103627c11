package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"ropeline/queue"
)

// mostBody bounds the body of a queue API request.
const mostBody = 4 << 10

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
	return slices.Contains(digests, p.Digest)
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
