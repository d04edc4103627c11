package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	mostPosts   = 64 // callbacks that are sent at once
	mostBackoff = 2 * time.Minute
)

// event is a callback to be sent until it is acknowledged.
type event struct {
	ID    string        `json:"id"`
	Body  message       `json:"body"`
	After time.Duration `json:"after,omitempty"` // how long it waits before its first try
	Twice bool          `json:"twice,omitempty"`
}

func newEvent(name string, at time.Time, d data) event {
	return event{ID: "sbe_" + uuid.NewString(), Body: message{Type: name, At: at.UTC(), Data: d}}
}

// announce writes down events that just happened and sends them, each after the one before. The caller has the lock.
func (s *Server) announce(events ...event) {
	for _, e := range events {
		s.journal.event(e)
	}
	s.tellLocked(events)
}

// tell sends events, each after the one before was acknowledged or given up.
func (s *Server) tell(events ...event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked(events)
}

func (s *Server) tellLocked(events []event) {
	if s.ctx.Err() != nil {
		return
	}
	if s.pending == 0 {
		s.idle = make(chan struct{})
	}
	s.pending++
	s.closed.Go(func() {
		for _, e := range events {
			s.deliver(e)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pending--; s.pending == 0 {
			close(s.idle)
		}
	})
}

// deliver sends e until somebody acknowledges it.
func (s *Server) deliver(e event) {
	if e.After > 0 && !s.wait(e.After) {
		return
	}
	if e.Twice {
		var second sync.WaitGroup
		second.Go(func() { _ = s.post(e) })
		defer second.Wait()
	}
	pause := s.cfg.Backoff
	for try := 1; ; try++ {
		err := s.post(e)
		if err == nil {
			s.settled(e)
			return
		}
		if s.ctx.Err() != nil {
			return
		}
		if try == s.cfg.Tries {
			s.log.Warn("sandbox callback given up", "event", e.ID, "type", e.Body.Type, "tries", try, "err", err)
			s.settled(e)
			return
		}
		if !s.wait(pause/2 + rand.N(pause/2+1)) {
			return
		}
		pause = min(2*pause, mostBackoff)
	}
}

// settled writes down that e is not sent again.
func (s *Server) settled(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.told(e.ID)
}

// wait returns false if the server is closed meanwhile.
func (s *Server) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// post sends e once; nil means that it was acknowledged.
func (s *Server) post(e event) error {
	select {
	case s.posts <- struct{}{}:
		defer func() { <-s.posts }()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	s.mu.Lock()
	url := s.callback
	s.mu.Unlock()
	body, err := json.Marshal(e.Body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if err := s.keys.Sign(req.Header, e.ID, time.Now(), body); err != nil {
		return err
	}
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
