package proxy

import (
	"net/http"
)

// answer is the way back to the client: it keeps 1xx answers clean, and upgraded connections in sight.
type answer struct {
	http.ResponseWriter
	up     *upstream
	ex     *exchange
	preset http.Header // set before the request was passed on; not for 1xx answers
}

func newAnswer(w http.ResponseWriter, u *upstream, ex *exchange) *answer {
	a := &answer{ResponseWriter: w, up: u, ex: ex}
	if h := w.Header(); len(h) > 0 {
		a.preset = h.Clone()
		clear(h)
	}
	return a
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// restore puts back what was set before the request was passed on, once the answer proper begins.
func (a *answer) restore() {
	h := a.Header()
	for name, values := range a.preset {
		h[name] = append(values, h[name]...)
	}
	a.preset = nil
}

func (a *answer) Write(p []byte) (int, error) {
	if a.preset != nil {
		a.restore()
	}
	return a.ResponseWriter.Write(p)
}

func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.restore()
		a.ResponseWriter.WriteHeader(status)
		return
	}
	cleanInformational(a.Header())
	// 100 is ours to say, when the body is asked for. HTTP/1.0 knows no 1xx.
	if status != http.StatusContinue && a.ex.in.ProtoAtLeast(1, 1) {
		a.ResponseWriter.WriteHeader(status)
	}
}
