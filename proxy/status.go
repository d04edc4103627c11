package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"ropeline/queue"
)

// status keeps the public status of a room for a second.
type status struct{ last atomic.Pointer[statusAnswer] }

type statusAnswer struct {
	made time.Time
	body []byte
}

// statusView is what anybody may know about a room.
type statusView struct {
	Room      string `json:"room"`
	Title     string `json:"title"`
	State     string `json:"state"` // before_opening open paused closed full holding
	Waiting   int    `json:"waiting"`
	OpensAt   string `json:"opensAt,omitempty"`
	Reason    string `json:"reason,omitempty"`
	UpdatedAt string `json:"updatedAt"`
}

// status is the public status feed, the same for everybody and cached one second.
func (e *Edge) status(w http.ResponseWriter, _ *request, rm *room) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=1")
	h.Set("Content-Type", "application/json")
	a := rm.status.last.Load()
	if now := rm.Line.Now(); a == nil || now.Sub(a.made) >= time.Second || now.Before(a.made) {
		body, _ := json.Marshal(rm.view(now))
		a = &statusAnswer{made: now, body: body}
		rm.status.last.Store(a)
	}
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body)
}

func (r *room) view(now time.Time) statusView {
	v := statusView{Room: r.id(), Title: r.Title, State: string(queue.Holding), UpdatedAt: now.UTC().Format(time.RFC3339)}
	s := r.Line.Snapshot()
	if s == nil {
		return v
	}
	v.Waiting, v.Reason = s.Waiting, s.Reason
	v.UpdatedAt = time.UnixMilli(s.At).UTC().Format(time.RFC3339)
	if s.OpensAt > 0 {
		v.OpensAt = time.UnixMilli(s.OpensAt).UTC().Format(time.RFC3339)
	}
	if !r.Line.Away() {
		v.State = s.State(now)
	}
	return v
}
