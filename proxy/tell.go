package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"ropeline/queue"
)

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
		for _, path := range q.placePaths() {
			c := placeCookieOf(rm.id(), path, q.client.TLS)
			c.Value, c.MaxAge = sealed, int(queue.PlaceLife/time.Second)
			http.SetCookie(w, c)
		}
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
