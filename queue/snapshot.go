package queue

import (
	"math"
	"sort"
	"time"
)

// Mode is what an organizer has set for a room.
type Mode string

// The modes of a room. Before its opening time an Open room admits nobody.
const (
	Open   Mode = "open"
	Paused Mode = "paused" // joins go on, nobody is admitted
	Closed Mode = "closed" // nobody joins, nobody is admitted
	Full   Mode = "full"   // as Closed: nothing is left to sell
)

// Settings are what the leader decides for a room and writes for every node to follow.
type Settings struct {
	Mode    Mode
	Reason  string        // shown to visitors of a paused, closed or full room
	Rate    float64       // admissions per second; 0 admits nobody
	Limit   int           // active limit
	OpensAt time.Time     // zero: open
	Claim   time.Duration // claim window
	Session time.Duration
}

// Snapshot is what every node knows about a room: enough to answer any poll from memory. The leader writes it each tick.
type Snapshot struct {
	At         int64   `json:"at"` // ms since the epoch, Redis's clock
	Generation int64   `json:"gen"`
	Mode       Mode    `json:"mode"`
	Reason     string  `json:"reason,omitempty"`
	Rate       float64 `json:"rate"` // admissions per second
	Limit      int     `json:"limit"`
	OpensAt    int64   `json:"opens,omitempty"` // ms since the epoch, 0 = open
	Active     int     `json:"active"`
	Waiting    int     `json:"waiting"`
	Serving    int64   `json:"serving"` // highest score whose turn has come
	Highest    int64   `json:"highest"` // last number given
	Speed      float64 `json:"speed"`   // places per second that the line moves, absent ones included
	Marks      []Mark  `json:"marks"`   // ranks with their scores, ascending; the first ones dense
}

// Mark says that Rank visitors stand before the one with Score.
type Mark struct {
	Rank  int   `json:"r"`
	Score int64 `json:"s"`
}

// OpenAt tells whether the room's opening time has come at now.
func (s *Snapshot) OpenAt(now time.Time) bool { return now.UnixMilli() >= s.OpensAt }

// Reached tells whether the turn of score has come, so that Redis must be asked about it.
func (s *Snapshot) Reached(score int64) bool { return score <= s.Serving }

// Lacks tells whether a place with score should be among the marks and is not: Redis has lost it, or it left.
func (s *Snapshot) Lacks(score int64) bool {
	if score > s.Generation<<numberBits|s.Highest {
		return false // it joined after the snapshot
	}
	dense := s.Marks[:min(len(s.Marks), denseMarks)]
	i := sort.Search(len(dense), func(i int) bool { return dense[i].Score >= score })
	if i == len(dense) {
		return len(dense) == len(s.Marks) // the marks are the whole line
	}
	return dense[i].Score != score
}

// Ahead estimates how many stand before score: exact at a mark, interpolated between two, never below 0.
func (s *Snapshot) Ahead(score int64) int {
	m := s.Marks
	i := sort.Search(len(m), func(i int) bool { return m[i].Score >= score })
	switch {
	case len(m) == 0:
		return int(max(0, score-1-max(s.Serving, s.Generation<<numberBits|s.Highest))) // all who joined since are before it
	case i < len(m) && m[i].Score == score, i == 0:
		return m[i].Rank
	case i == len(m): // behind the last mark: numbers are dense, so each later one adds at most one
		last := m[len(m)-1]
		return last.Rank + int(min(score-last.Score, maxNumber))
	}
	lo, hi := m[i-1], m[i]
	part := float64(score-lo.Score) / float64(hi.Score-lo.Score)
	return lo.Rank + int(math.Round(part*float64(hi.Rank-lo.Rank)))
}

// Range is an estimate of a wait.
type Range struct{ Low, High time.Duration }

// Wait estimates how long a visitor with ahead before it still waits, not counting the time until the opening; ok is
// false where nobody can tell, since nobody is being admitted.
func (s *Snapshot) Wait(ahead int) (r Range, ok bool) {
	if s.Mode != Open || s.Rate <= 0 {
		return Range{}, false
	}
	speed := s.Speed
	if speed <= 0 {
		speed = s.Rate
	}
	seconds := float64(ahead+1) / speed
	const longest = float64(7 * 24 * time.Hour / time.Second)
	low, high := min(seconds*0.8, longest), min(seconds*1.35+2, longest)
	return Range{
		Low:  time.Duration(low * float64(time.Second)),
		High: time.Duration(high * float64(time.Second)),
	}, true
}

// Pace bounds how often visitors of a room poll.
type Pace struct {
	Min, Max time.Duration // between polls near the head, and far back
	Budget   float64       // most polls per second of all waiting visitors together; 0 = no bound
}

// After is how long a visitor with ahead before it is told to wait until the next poll: half of the low wait estimate
// between Min and Max, stretched so that everybody waiting stays under Budget, jittered by 20 % (chance in [0,1)).
func (p Pace) After(s *Snapshot, ahead int, now time.Time, chance float64) time.Duration {
	soonest := p.Max * 2 // the low estimate of the wait
	if until := time.UnixMilli(s.OpensAt).Sub(now); until > 0 {
		soonest = until
	} else if wait, ok := s.Wait(ahead); ok {
		soonest = wait.Low
	}
	d := min(max(soonest/2, p.Min), p.Max)
	if p.Budget > 0 {
		d = max(d, time.Duration(float64(s.Waiting)/p.Budget*float64(time.Second)))
	}
	jitter := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (0.8 + 0.4*chance)) }
	return max(min(jitter(d), soonest/2), jitter(p.Min))
}

// Spare tells whether a visitor may be admitted at once at now, as far as the snapshot knows: Redis decides.
func (s *Snapshot) Spare(now time.Time) bool {
	return s.Mode == Open && s.Rate > 0 && s.Waiting == 0 && s.Active < s.Limit && s.OpenAt(now)
}

// State of the room at now, as its organizer and its opening time have it.
func (s *Snapshot) State(now time.Time) string {
	if state := s.stateAt(now); state != Waiting {
		return string(state)
	}
	return string(Open)
}
