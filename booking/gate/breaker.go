package gate

import (
	"sync"
	"time"
)

// pause is how long the gate of an event leaves Redis alone after a call that was not answered.
const pause = time.Second

// answer is what became of a call.
type answer int

const (
	unknown  answer = iota // the caller gave up first
	answered               // also with a refusal
	silent
)

// breaker keeps callers from waiting for a Redis that doesn't answer. There is one for each event, because the events of a
// Cluster live on different servers. The zero value lets calls pass.
type breaker struct {
	mu      sync.Mutex
	retry   time.Time // when the next call may try; zero while Redis answers
	trying  bool      // that call is under way
	success time.Time // when Redis last answered
}

// enter says whether a call may be made now. Each true wants a leave.
func (b *breaker) enter(now time.Time) (began time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retry.IsZero() {
		return now, true
	}
	if b.trying || now.Before(b.retry) {
		return now, false
	}
	b.trying = true
	return now, true
}

// leave notes what became of a call that began then, and says whether Redis went away or came back with it.
func (b *breaker) leave(began, now time.Time, a answer) (turned bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	away := !b.retry.IsZero()
	if away && !began.Before(b.retry) {
		b.trying = false
	}
	switch {
	case a == answered:
		b.retry, b.trying, b.success = time.Time{}, false, now
		return away
	case a == silent && (away || !b.success.After(began)): // nobody was answered while this call waited
		b.retry = now.Add(pause)
		return !away
	}
	return false
}
