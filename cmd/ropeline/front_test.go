package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"ropeline/booking"
)

func TestFront_LeadsToTheEventOfTheRoom(t *testing.T) {
	f := front{
		shop: http.NotFoundHandler(),
		next: func(_ context.Context, room string) (int64, error) {
			if room == "spring-tour" {
				return 7, nil
			}
			return 0, booking.ErrNoEvent
		},
	}
	for _, c := range []struct {
		method, path, room string
		status             int
		location           string
	}{
		{"GET", "/", "spring-tour", http.StatusSeeOther, "/events/7/"},
		{"HEAD", "/", "spring-tour", http.StatusSeeOther, "/events/7/"},
		{"GET", "/", "other", http.StatusNotFound, ""},
		{"POST", "/", "spring-tour", http.StatusNotFound, ""},
		{"GET", "/x", "spring-tour", http.StatusNotFound, ""},
	} {
		r, w := httptest.NewRequest(c.method, c.path, nil), httptest.NewRecorder()
		r.Header.Set("X-Ropeline-Room", c.room)
		f.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("Location") != c.location {
			t.Errorf("%s %s in %s: %d to %q, want %d to %q", c.method, c.path, c.room, w.Code, w.Header().Get("Location"), c.status, c.location)
		}
	}
}
