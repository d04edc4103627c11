package crowd

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// admit takes the access token in hand and goes in.
func (v *visitor) admit(token string, atOnce bool) step {
	v.leaveLine(admitted)
	v.access = token
	c, err := readClaims(token)
	if err != nil {
		v.tally.unexpected.Add(1)
		v.note(fmt.Sprintf("visitor %d: an access token that cannot be read", v.visit.id))
		return nil
	}
	if !atOnce && v.visit.number != 0 && c.Number != 0 && c.Number != v.visit.number {
		v.visit.worse = append(v.visit.worse, fmt.Sprintf("number %d was admitted as number %d", v.visit.number, c.Number))
		v.tally.worse.Add(1)
	}
	v.visit.sessions = append(v.visit.sessions, session{claims: c, atOnce: atOnce, received: time.Now(), expires: c.expires()})
	v.loot.live.Store(&token)
	v.tally.admitted.Add(1)
	v.tally.inside.Add(1)
	if atOnce {
		v.tally.atOnce.Add(1)
	}
	return v.inside
}

// renew looks at a token that came after the first: a renewed session keeps its id and runs longer, one with
// another id is a second session.
func (v *visitor) renew(token string) {
	if token == "" || token == v.access || len(v.visit.sessions) == 0 {
		return
	}
	c, err := readClaims(token)
	if err != nil {
		return
	}
	v.access = token
	for i := range v.visit.sessions {
		if s := &v.visit.sessions[i]; s.claims.ID == c.ID {
			if c.expires().After(s.expires) {
				s.expires = c.expires()
			}
			return
		}
	}
	now := time.Now()
	again := v.ranOut(now)
	v.visit.sessions = append(v.visit.sessions, session{claims: c, again: again, received: now, expires: c.expires()})
}

// ranOut tells whether the last session has expired by the clock of either side, or may have been taken back.
func (v *visitor) ranOut(now time.Time) bool {
	last := v.visit.sessions[len(v.visit.sessions)-1]
	return now.After(last.expires.Add(-2*time.Second)) || !last.freed.IsZero() && now.After(last.freed)
}

// inside sees its pages, spread over its stay, shops if it came to buy, and ends the session or lets it run out.
func (v *visitor) inside(ctx context.Context) step {
	defer v.tally.inside.Add(-1)
	settle := func(context.Context) {}
	for n := range v.cfg.Requests {
		a, ok := v.ask(ctx, v.pageRequest, v.pageTimes)
		if !ok {
			return nil
		}
		if a.state() != "" {
			v.turnedAway(a)
			return nil
		}
		v.tally.pages.Add(1)
		v.renew(v.jar.get(v.accessName))
		v.renew(a.header.Get("X-Queue-Token"))
		if n == 0 && v.cfg.Buy {
			after, ok := v.shop(ctx)
			if !ok {
				return nil
			}
			if after != nil {
				settle = after
			}
		}
		if !sleep(ctx, v.plan.stay/time.Duration(v.cfg.Requests)) {
			return nil
		}
	}
	if !v.plan.abandon {
		v.endSession(ctx)
	}
	settle(ctx)
	return nil
}

// endSession hands the session back. One that the edge does not end (a session given out on the first page has
// no place to end it by) is held until it expires.
func (v *visitor) endSession(ctx context.Context) {
	token, asked := v.access, time.Now()
	a, ok := v.ask(ctx, v.endRequest, nil)
	if !ok {
		return
	}
	if a.status != http.StatusNoContent {
		if a.status != http.StatusNotFound {
			v.unexpected("end of a session", a)
		}
		return
	}
	last := &v.visit.sessions[len(v.visit.sessions)-1]
	last.ended = asked
	v.tally.ended.Add(1)
	v.loot.ended.Store(&endedToken{token: token, at: time.Now()})
}

// turnedAway judges the edge's own answer to a visitor with a token: right if the token has expired.
func (v *visitor) turnedAway(a answer) {
	if v.ranOut(time.Now()) {
		return
	}
	last := v.visit.sessions[len(v.visit.sessions)-1]
	v.visit.turned = append(v.visit.turned, fmt.Sprintf("number %d: %d %s", last.claims.Number, a.status, a.state()))
	v.tally.turned.Add(1)
}
