package admitter

import (
	"math"
	"time"
)

// leastHalfLife is how fast the measured speed of a line forgets at the most; a slow line forgets slower, so that a few
// admissions make a mean.
const leastHalfLife, halfLifeAdmissions = 15 * time.Second, 10

func halfLife(rate float64) time.Duration {
	if rate <= 0 {
		return leastHalfLife
	}
	return max(leastHalfLife, time.Duration(min(halfLifeAdmissions/rate, 86400)*float64(time.Second)))
}

// speed is how fast a line moves: an exponentially weighted mean of the places that leave its head per second.
type speed struct {
	perSecond float64
	rate      float64 // the admission rate it was measured under
	at        time.Time
}

// see notes that places moved since the last call. A new admission rate scales what was measured under the old one.
func (s *speed) see(rate float64, places int, waiting bool, now time.Time) {
	if s.rate != rate {
		if s.rate > 0 {
			s.perSecond *= rate / s.rate
		} else {
			s.perSecond = rate
		}
		s.rate = rate
	}
	passed := now.Sub(s.at)
	if !s.at.IsZero() && waiting && passed > 0 {
		keep := math.Exp2(-passed.Seconds() / halfLife(rate).Seconds())
		s.perSecond = keep*s.perSecond + (1-keep)*float64(places)/passed.Seconds()
	}
	s.at = now
}
