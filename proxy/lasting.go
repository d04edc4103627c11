package proxy

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// lasting are the upgraded connections and event streams that are open: what outlives the request's own
// check of its token, and what [http.Server.Shutdown] does not end.
type lasting struct {
	mu      sync.Mutex
	closing bool
	open    map[*tenure]struct{}
	idle    chan struct{} // closed when closing and none is open
}

// tenure is the time one of them has.
type tenure struct {
	end  func()        // closes it; called at most once, by the watcher
	done chan struct{} // closed when it is over by itself
	kick chan struct{} // closed by CloseUpgraded
}

// CloseUpgraded closes every upgraded connection and event stream, and each new one at once. It returns when
// none is left, or with ctx's error.
func (u *upstream) CloseUpgraded(ctx context.Context) error {
	l := &u.long
	l.mu.Lock()
	if !l.closing {
		l.closing, l.idle = true, make(chan struct{})
		for t := range l.open {
			close(t.kick)
		}
		if len(l.open) == 0 {
			close(l.idle)
		}
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Upgraded is how many upgraded connections and event streams are open.
func (u *upstream) Upgraded() int {
	u.long.mu.Lock()
	defer u.long.mu.Unlock()
	return len(u.long.open)
}

// begin counts one more and has it ended in time.
func (l *lasting) begin(p *pass, end func()) *tenure {
	t := &tenure{end: end, done: make(chan struct{}), kick: make(chan struct{})}
	l.mu.Lock()
	if l.closing {
		close(t.kick)
		if len(l.open) == 0 {
			l.idle = make(chan struct{})
		}
	}
	l.open[t] = struct{}{}
	l.mu.Unlock()
	go t.watch(p.Until, p.Ended)
	return t
}

// over takes it out of the count; to be called once.
func (l *lasting) over(t *tenure) {
	close(t.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, t)
	if l.closing && len(l.open) == 0 {
		close(l.idle)
	}
}

func (t *tenure) watch(until func() time.Time, ended <-chan struct{}) {
	var timer *time.Timer
	for {
		var due <-chan time.Time
		if until != nil {
			if at := until(); !at.IsZero() {
				left := time.Until(at)
				if left <= 0 {
					t.end()
					return
				}
				if timer == nil {
					timer = time.NewTimer(left)
					defer timer.Stop()
				} else {
					timer.Reset(left)
				}
				due = timer.C
			}
		}
		select {
		case <-due:
			continue
		case <-ended:
		case <-t.kick:
		case <-t.done:
			return
		}
		t.end()
		return
	}
}

// stream lets an event stream end as if the upstream had closed it: the browser connects again, and meets
// the gate.
func (l *lasting) stream(body io.ReadCloser, p *pass) io.ReadCloser {
	s := &stream{ReadCloser: body, all: l}
	s.tenure = l.begin(p, func() {
		s.cut.Store(true)
		_ = body.Close()
	})
	return s
}

type stream struct {
	io.ReadCloser
	all    *lasting
	tenure *tenure
	cut    atomic.Bool
	once   sync.Once
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && s.cut.Load() {
		err = io.EOF
	}
	return n, err
}

func (s *stream) Close() error {
	s.once.Do(func() { s.all.over(s.tenure) })
	return s.ReadCloser.Close()
}
