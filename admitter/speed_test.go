package admitter

import (
	"math"
	"testing"
	"time"
)

func TestSpeed_FollowsTheLine(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var s speed
	tick := func(rate float64, places int, waiting bool) float64 {
		now = now.Add(500 * time.Millisecond)
		s.see(rate, places, waiting, now)
		return s.perSecond
	}
	near := func(what string, got, want, off float64) {
		t.Helper()
		if math.Abs(got-want) > off {
			t.Errorf("%s: %v places a second, want %v", what, got, want)
		}
	}
	near("before anything moved", tick(100, 0, true), 100, 0)
	for range 30 * 2 { // 30 s: two half lives
		tick(100, 25, true) // half of the rate, the limit is reached
	}
	near("two half lives at half of the rate", s.perSecond, 62.5, 0.5)
	for range 600 * 2 {
		tick(100, 25, true)
	}
	near("after ten minutes", s.perSecond, 50, 0.1)
	near("the rate was doubled", tick(200, 50, true), 100, 1)
	for range 600 * 2 {
		tick(200, 0, false)
	}
	near("nobody waits, so nothing is measured", s.perSecond, 100, 1)
	near("stopped", tick(0, 0, true), 0, 0)
	near("started anew", tick(40, 20, true), 40, 0.1)
}
