package gate

import (
	"testing"
	"time"
)

func TestBreaker_OneSilenceAmongAnswersIsPassedOver(t *testing.T) {
	var b breaker
	now := time.Unix(1_000_000, 0)
	slow, _ := b.enter(now)
	quick, _ := b.enter(now)
	b.leave(quick, now.Add(time.Millisecond), answered)
	if b.leave(slow, now.Add(50*time.Millisecond), silent) {
		t.Error("went away although another call was answered meanwhile")
	}
	later, _ := b.enter(now.Add(time.Second))
	if !b.leave(later, now.Add(time.Second+50*time.Millisecond), silent) {
		t.Error("stayed although nobody was answered")
	}
}

func TestBreaker_OneCallTriesAndOthersDoNotWaitForIt(t *testing.T) {
	var b breaker
	now := time.Unix(1_000_000, 0)
	first, _ := b.enter(now)
	b.leave(first, now, silent)
	now = now.Add(pause)
	trial, ok := b.enter(now)
	if _, second := b.enter(now); !ok || second {
		t.Fatalf("entered %v and %v, want the first alone", ok, second)
	}
	b.leave(trial, now, unknown) // its caller left
	trial, ok = b.enter(now)
	if !ok {
		t.Fatal("nobody may try after a caller who left")
	}
	if !b.leave(trial, now, answered) {
		t.Error("not back although Redis answered")
	}
	for range 2 {
		if _, ok := b.enter(now); !ok {
			t.Error("refused although Redis is back")
		}
	}
}
