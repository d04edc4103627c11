package crowd

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// finding is how often a promise was broken, with a few cases in words.
type finding struct {
	count    int
	examples []string
}

// maxExamples is how many cases of a kind are kept.
const maxExamples = 3

func (f *finding) add(example string) {
	f.count++
	if len(f.examples) < maxExamples {
		f.examples = append(f.examples, example)
	}
}

// outOfOrder counts the visitors who were overtaken by more than one batch.
//
// The argument. Within a generation numbers are given in arrival order, and the head of the line is always the
// lowest number present. Every token of one batch is signed for that batch, so its `iat` tells the batch, in
// whole seconds of the store's clock, late claims notwithstanding. Take two visitors a and b of one generation
// with a.num < b.num, both present all the time. When b was picked, a had been picked already or was picked in
// the same batch; one batch is signed within a second, so its tokens differ by at most one whole second of
// `iat`. Hence a.iat <= b.iat + tolerance with a tolerance of one second, and a visitor a is out of order if
// some b with a higher number has b.iat < a.iat - tolerance. Of all higher numbers only the one issued first
// matters, so: sort by number, walk from the highest down with the smallest `iat` met so far, compare. That is
// O(n log n), and counts visitors overtaken, not pairs.
//
// Left out: whoever fell silent (a room may pass an absent place and serve it when it is back), by plan or
// because this machine was too slow to poll in time, and tokens given out while the store was away. Visitors
// admitted at once are in: they take a number when they pass, and they pass only when nobody waits.
func outOfOrder(visits []visit, tolerance time.Duration) finding {
	type turn struct {
		visitor int
		claims  claims
	}
	var turns []turn
	for _, v := range visits {
		if v.vanished || v.late || len(v.sessions) == 0 {
			continue
		}
		if c := v.sessions[0].claims; !c.Outage && c.Number > 0 {
			turns = append(turns, turn{v.id, c})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.claims.Generation, b.claims.Generation), cmp.Compare(a.claims.Number, b.claims.Number))
	})

	var found finding
	var first turn // of the higher numbers of this generation, the one issued first
	for i := len(turns) - 1; i >= 0; i-- {
		a := turns[i]
		if i == len(turns)-1 || a.claims.Generation != first.claims.Generation {
			first = a
			continue
		}
		if a.claims.issued().Sub(first.claims.issued()) > tolerance {
			found.add(fmt.Sprintf("visitor %d, number %d, admitted %v after number %d (visitor %d)", a.visitor, a.claims.Number,
				a.claims.issued().Sub(first.claims.issued()), first.claims.Number, first.visitor))
		}
		if a.claims.Issued < first.claims.Issued {
			first = a
		}
	}
	return found
}

// activePeak returns the most sessions that visitors held at one instant.
//
// A session counts from the moment its token was in a visitor's hand (later than the room counts it) to the
// moment that visitor asked for its end and the edge agreed, or to its `exp` (never later than the room counts
// it), and an end is counted before a start at the same instant. So the peak is never above what the room let
// in, and a peak above the active limit is a breach. It holds as long as this machine's clock and the store's
// agree within the two seconds for which a room keeps a session after its `exp`.
func activePeak(visits []visit) int {
	type change struct {
		at    time.Time
		delta int
	}
	held := make(map[string]session)
	for _, v := range visits {
		for _, s := range v.sessions {
			if old, ok := held[s.claims.ID]; ok { // one session in two hands is still one session
				s = merge(old, s)
			}
			held[s.claims.ID] = s
		}
	}
	changes := make([]change, 0, 2*len(held))
	for _, s := range held {
		if until := s.until(); until.After(s.received) {
			changes = append(changes, change{s.received, +1}, change{until, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.delta, b.delta)) })
	active, peak := 0, 0
	for _, c := range changes {
		active += c.delta
		peak = max(peak, active)
	}
	return peak
}

// merge is the time for which either of two hands held the same session; its end by DELETE ends it for both.
func merge(a, b session) session {
	if b.received.Before(a.received) {
		a.received = b.received
	}
	if a.freed.IsZero() || !b.freed.IsZero() && b.freed.Before(a.freed) {
		a.freed = b.freed
	}
	if b.expires.After(a.expires) {
		a.expires = b.expires
	}
	if a.ended.IsZero() || !b.ended.IsZero() && b.ended.Before(a.ended) {
		a.ended = b.ended
	}
	return a
}

// servedTwice counts places that yielded two sessions, sessions that two visitors held, and numbers of one
// generation that two visitors were admitted with.
func servedTwice(visits []visit) finding {
	type number struct{ generation, number int64 }
	var found finding
	holder := make(map[string]int)
	numbers := make(map[number]int)
	for _, v := range visits {
		turns := 0
		for _, s := range v.sessions {
			if !s.again {
				turns++
			}
		}
		if turns > 1 {
			found.add(fmt.Sprintf("visitor %d was given %d sessions", v.id, turns))
		}
		for _, s := range v.sessions {
			if other, ok := holder[s.claims.ID]; ok && other != v.id {
				found.add(fmt.Sprintf("visitors %d and %d hold the same session", other, v.id))
				continue
			}
			holder[s.claims.ID] = v.id
			if s.claims.Number == 0 {
				continue
			}
			n := number{s.claims.Generation, s.claims.Number}
			if other, ok := numbers[n]; ok && other != v.id {
				found.add(fmt.Sprintf("visitors %d and %d were both admitted with number %d", other, v.id, n.number))
			}
			numbers[n] = v.id
		}
	}
	return found
}

// gotWorse counts the visitors whose place got worse while they were there; see [track].
func gotWorse(visits []visit) finding {
	var found finding
	for _, v := range visits {
		if len(v.worse) > 0 {
			found.add(fmt.Sprintf("visitor %d: %s", v.id, v.worse[0]))
		}
	}
	return found
}

// losses counts the visitors who had a place and ended in none of the ways a story may end: admitted, left, gave
// up by plan, or still waiting when the time ran out.
func losses(visits []visit) finding {
	var found finding
	for _, v := range visits {
		if v.outcome == lost || v.joined && v.outcome == notJoined {
			found.add(fmt.Sprintf("visitor %d, number %d", v.id, v.number))
		}
	}
	return found
}

// turnedAway counts the visitors whose unexpired token did not open the gate.
func turnedAway(visits []visit) finding {
	var found finding
	for _, v := range visits {
		if len(v.turned) > 0 {
			found.add(fmt.Sprintf("visitor %d: %s", v.id, v.turned[0]))
		}
	}
	return found
}
