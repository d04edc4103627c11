package proxy

import (
	"sync"
	"time"
)

// seldom keeps an outage from flooding the log: one line in ten seconds, which says how many were left out. The zero
// value is ready; it is safe for concurrent use.
type seldom struct {
	mu   sync.Mutex
	last time.Time
	left int
}

const seldomEvery = 10 * time.Second

// say calls log with the number of lines left out since the last one, or leaves this one out too.
func (s *seldom) say(now time.Time, log func(leftOut int)) {
	s.mu.Lock()
	left := s.left
	due := s.last.IsZero() || now.Sub(s.last) >= seldomEvery
	if due {
		s.last, s.left = now, 0
	} else {
		s.left++
	}
	s.mu.Unlock()
	if due {
		log(left)
	}
}
