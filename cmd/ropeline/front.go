package main

import (
	"context"
	"net/http"
	"strconv"
)

// front leads who comes to the root of a shop to the event that is on sale there: a visitor without JavaScript is sent to the
// root of a room on a whole host when the turn has come.
type front struct {
	shop http.Handler
	next func(ctx context.Context, room string) (event int64, err error)
}

func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		if event, err := f.next(r.Context(), r.Header.Get("X-Ropeline-Room")); err == nil {
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, "/events/"+strconv.FormatInt(event, 10)+"/", http.StatusSeeOther)
			return
		}
	}
	f.shop.ServeHTTP(w, r)
}
