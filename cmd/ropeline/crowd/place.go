package crowd

import (
	"encoding/json"
	"fmt"
	"time"
)

// place is the queue API's answer to a join or a poll.
type place struct {
	QueueID     string `json:"queueId"`
	State       string `json:"state"`
	Number      int64  `json:"number"`
	Ahead       *int   `json:"ahead"` // absent before opening and when admitted
	Waiting     int    `json:"waiting"`
	PollAfterMs int    `json:"pollAfterMs"`
	AccessToken string `json:"accessToken"`
}

func readPlace(body []byte) (place, error) {
	var p place
	err := json.Unmarshal(body, &p)
	if err == nil && p.State == "" {
		err = fmt.Errorf("crowd: an answer without a state: %.100s", body)
	}
	return p, err
}

// pause is how long the edge told the visitor to wait before the next poll, within sane bounds: the crowd
// neither spins on a zero nor sleeps for ever.
func (p place) pause() time.Duration {
	return min(max(time.Duration(p.PollAfterMs)*time.Millisecond, 100*time.Millisecond), 10*time.Minute)
}

// problem is the part of a problem+json answer that the crowd reads.
type problem struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	Room  string `json:"room"`
}

func readProblem(body []byte) problem {
	var p problem
	if json.Unmarshal(body, &p) != nil {
		return problem{}
	}
	return p
}

// track follows one place and tells when it gets worse. The zero value has seen nothing.
type track struct {
	number int64
	best   int // smallest `ahead` told so far
	line   int // longest line told since best
	back   int64
	seen   bool // best is set
}

// see compares p with what was told before and returns, in words, how it is worse, or "".
//
// A number never changes. `ahead` may rise above the best value told by at most one hundredth of the line (the
// edge interpolates between samples of it), one admission batch, or 25, whichever is most: that is how far two
// nodes with snapshots of different age can differ. On top of that, every visitor who was away and has come
// back since (cameBack counts them over the whole crowd) may stand in front again.
func (t *track) see(p place, batch int, cameBack int64) string {
	if p.Number != 0 && t.number != 0 && p.Number != t.number {
		old := t.number
		t.number = p.Number
		return fmt.Sprintf("number %d became %d", old, p.Number)
	}
	if p.Number != 0 {
		t.number = p.Number
	}
	if p.Ahead == nil {
		return ""
	}
	t.line = max(t.line, p.Waiting)
	if !t.seen || *p.Ahead <= t.best {
		t.best, t.line, t.back, t.seen = *p.Ahead, p.Waiting, cameBack, true
		return ""
	}
	allowed := max(t.line/100, batch, 25) + int(cameBack-t.back)
	if rise := *p.Ahead - t.best; rise > allowed {
		best := t.best
		t.best, t.line, t.back = *p.Ahead, p.Waiting, cameBack // tell of each step once
		return fmt.Sprintf("number %d: %d ahead became %d (%d more allowed)", t.number, best, *p.Ahead, allowed)
	}
	return ""
}

// forget drops what was told of the position, not the number: a visitor who was away may find others in front.
func (t *track) forget() { t.seen = false }
