package crowd

import "time"

// visit is everything one visitor went through that a check needs. It is written by its visitor alone and
// read once that has ended.
type visit struct {
	id       int // index in the crowd, for messages
	outcome  outcome
	joined   bool      // the edge gave it a place
	vanished bool      // it fell silent by plan
	late     bool      // it was silent for longer than the room's patience without a plan: this machine was too slow
	number   int64     // the place number first told; 0 = none
	sessions []session // one in a correct room
	worse    []string  // each time its place got worse, in words
	turned   []string  // each time its token did not open the gate, in words
}

// session is one access session that a visitor held.
type session struct {
	claims   claims
	atOnce   bool      // given out on the first page, without joining
	again    bool      // given out after the one before had run out: a turn of its own
	received time.Time // when the visitor had the token in hand, local clock
	ended    time.Time // when the visitor asked for its end and the edge agreed; zero = it ran until it expired
	expires  time.Time // the latest exp seen for this session
	freed    time.Time // from then on the room may have taken the slot back, as its visitor had bought or given up; zero = never
}

// until is when the visitor stopped holding the session.
func (s session) until() time.Time {
	end := s.expires
	for _, t := range []time.Time{s.ended, s.freed} {
		if !t.IsZero() && t.Before(end) {
			end = t
		}
	}
	return end
}

// outcome is where a visitor's story ended.
type outcome int

const (
	notJoined    outcome = iota // no place and no session: could not join, or the time ran out before
	stillWaiting                // in line when the time ran out
	admitted                    // got an access token
	left                        // left the line by its own wish
	gaveUp                      // stopped coming by plan
	lost                        // the edge no longer knew its place
	cheated                     // was a cheat
)

func (o outcome) String() string {
	return [...]string{"not joined", "still waiting", "admitted", "left", "gave up", "lost", "cheated"}[o]
}
