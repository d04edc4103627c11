package main

import (
	"errors"
	"net/http"
	"sync/atomic"
)

// late is an [http.RoundTripper] whose way is known only later: until then it fails.
type late struct {
	way atomic.Pointer[http.RoundTripper]
}

var errTooEarly = errors.New("the booking core is not ready yet")

func (l *late) set(way http.RoundTripper) { l.way.Store(&way) }

// RoundTrip is of [http.RoundTripper].
func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	way := l.way.Load()
	if way == nil {
		return nil, errTooEarly
	}
	return (*way).RoundTrip(r)
}
