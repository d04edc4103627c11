package demosite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// view is what every page may show.
type view struct {
	Title   string
	Event   string // path
	Place   string // the visitor's number in line, "" without a room in front
	Left    int    // seats
	Rows    [][]seat
	Seat    string
	Message string
}

func (s *Site) view(r *http.Request) view {
	return view{Title: s.cfg.Title, Event: Event, Place: r.Header.Get("X-Ropeline-Place"), Left: s.seats.left()}
}

func (s *Site) show(w http.ResponseWriter, page string, status int, v view) {
	var out bytes.Buffer
	if err := s.pages.ExecuteTemplate(&out, page, v); err != nil {
		s.cfg.Logger.Error("page", "page", page, "err", err)
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // the visitor may have gone
}

func (s *Site) start(w http.ResponseWriter, r *http.Request) {
	s.show(w, "start.html", http.StatusOK, s.view(r))
}

func (s *Site) event(w http.ResponseWriter, r *http.Request) {
	s.show(w, "event.html", http.StatusOK, s.view(r))
}

func (s *Site) seatList(w http.ResponseWriter, r *http.Request) {
	all := s.seats.list()
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"title": s.cfg.Title, "left": s.seats.left(), "seats": all})
		return
	}
	s.showSeats(w, r, http.StatusOK, "")
}

func (s *Site) showSeats(w http.ResponseWriter, r *http.Request, status int, message string) {
	v := s.view(r)
	v.Message = message
	for all := s.seats.list(); len(all) > 0; all = all[seatsPerRow:] {
		v.Rows = append(v.Rows, all[:seatsPerRow])
	}
	s.show(w, "seats.html", status, v)
}

// buyer is who buys: the visitor the room vouches for, or the address of the caller where no room stands in front.
func buyer(r *http.Request) string {
	if visitor := r.Header.Get("X-Ropeline-Visitor"); visitor != "" {
		return visitor
	}
	return "address " + r.RemoteAddr
}

func (s *Site) buy(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	name := r.PostFormValue("seat")
	switch err := s.seats.buy(name, buyer(r)); {
	case errors.Is(err, errTaken):
		s.showSeats(w, r, http.StatusConflict, "Seat "+name+" has just been sold. Please take another one.")
	case err != nil:
		s.showSeats(w, r, http.StatusBadRequest, "Please choose a seat of this hall.")
	default:
		http.Redirect(w, r, Event+"receipt?seat="+url.QueryEscape(name), http.StatusSeeOther)
	}
}

func (s *Site) receipt(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("seat")
	if !s.seats.owns(name, buyer(r)) {
		s.showSeats(w, r, http.StatusNotFound, "That seat is not yours yet.")
		return
	}
	v := s.view(r)
	v.Seat = name
	s.show(w, "receipt.html", http.StatusOK, v)
}

// finish tells the room that this visitor is through, so that the next may come in.
func (s *Site) finish(w http.ResponseWriter, r *http.Request) {
	s.finished.Add(1)
	w.Header().Set("X-Ropeline-Session", "end")
	s.show(w, "thanks.html", http.StatusOK, s.view(r))
}

// live sends the seats left, at once and at every beat, until the visitor goes.
func (s *Site) live(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	beat := time.NewTicker(s.cfg.Beat)
	defer beat.Stop()
	for id := 1; ; id++ {
		_, err := fmt.Fprintf(w, "id: %d\nevent: seats\ndata: {\"left\":%d}\n\n", id, s.seats.left())
		if err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-beat.C:
		case <-r.Context().Done():
			return
		}
	}
}

// mostSlow is the longest a slow answer takes.
const mostSlow = 30 * time.Second

// slow answers after ?for=, 2 s without it: a page that a busy database holds up.
func (s *Site) slow(w http.ResponseWriter, r *http.Request) {
	wait := 2 * time.Second
	if asked := r.URL.Query().Get("for"); asked != "" {
		d, err := time.ParseDuration(asked)
		if err != nil || d < 0 || d > mostSlow {
			http.Error(w, "for: a time from 0s to 30s, as 1500ms", http.StatusBadRequest)
			return
		}
		wait = d
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "This took %v.\n", wait)
	case <-r.Context().Done():
	}
}
