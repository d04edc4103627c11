package proxy

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"

	"ropeline/web"
)

// stateHeader is on every answer that the edge itself gives, and on none of an upstream's.
const stateHeader = "X-Ropeline-State"

// problem is an error as RFC 9457 has it. Type is "urn:ropeline:" and the slug, and stable.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Room   string `json:"room,omitempty"`
	State  string `json:"state,omitempty"`
	Join   string `json:"join,omitempty"` // path to POST to
}

// titles of the problems, by slug.
var titles = map[string]string{
	"not-admitted":       "Not admitted",
	"room-unknown":       "No such room",
	"not-found":          "Nothing here",
	"no-place":           "No place yet",
	"place-unknown":      "Not a place in this room",
	"room-closed":        "The room takes no arrivals",
	"line-full":          "The line is full",
	"redis-away":         "The line cannot be reached",
	"ambiguous-path":     "Ambiguous path",
	"bad-target":         "Bad request target",
	"bad-request":        "Bad request",
	"method-not-allowed": "Method not allowed",
	"identity-required":  "Sign in first",
	"cross-origin":       "Not from another site",
	"too-large":          "Too large",
	"expectation-failed": "Expectation failed",
	"upstream-down":      "The site does not answer",
	"upstream-timeout":   "The site took too long",
	"request-timeout":    "The request took too long",
}

// retrySlugs are the problems that pass by themselves: their answers say when to try again.
var retrySlugs = map[string]bool{"redis-away": true, "line-full": true, "upstream-down": true, "upstream-timeout": true}

// refuse answers with a problem: a page to a person, problem+json to anything else and to whoever was not admitted (a
// person who opens a page gets the queue page instead; a form is answered so that nothing it holds is taken for sent).
func (e *Edge) refuse(w http.ResponseWriter, r *http.Request, rm *room, status int, slug, detail string) {
	if slug != "not-admitted" { // which the gate counts by its reason
		id := ""
		if rm != nil {
			id = rm.id()
		}
		e.metrics.refusal(id, slug)
	}
	h := w.Header()
	ourOwn(h, "no-store")
	h.Add("Vary", "Accept")
	if retrySlugs[slug] {
		h.Set("Retry-After", retryAfter())
	}
	if slug != "not-admitted" && wantsPage(r) {
		view := web.ErrorView{Status: status, Problem: slug}
		if rm != nil {
			view.Room, view.Languages = rm.Title, rm.Languages
			if status >= 500 { // asks again by itself, not everybody at once
				view.Retry, view.Refresh = rm.Entry, 15+rand.IntN(16)
			}
		}
		html(h, web.PlainCSP())
		w.WriteHeader(status)
		_, _ = w.Write(web.Error(view))
		return
	}
	p := problem{Type: "urn:ropeline:" + slug, Title: titles[slug], Status: status, Detail: detail}
	if rm != nil {
		p.Room = rm.id()
		if status < 500 {
			p.Join = joinPath(rm.id())
		}
		if s := rm.Line.Snapshot(); slug == "room-closed" && s != nil {
			p.State = string(s.Mode)
			p.Detail += reasonText(s.Reason)
		}
	}
	body, _ := json.Marshal(p)
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return " " + reason
}

func joinPath(room string) string { return "/_ropeline/events/" + room + "/queue" }
