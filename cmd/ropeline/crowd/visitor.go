package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// visitor is one person or API client. Its life is a chain of steps; each does one thing, waits as long as it was
// told, and returns the next. Only its own goroutine touches it.
type visitor struct {
	*crowd
	visit *visit
	plan  plan
	rng   *rand.Rand

	jar     jar
	queueID string // place token
	access  string // access token

	customerKey string // of an API client: opens its bookings without a session
	out         bool   // the gate has closed behind it

	track   track
	polls   int
	pause   time.Duration // until the next poll, as told
	since   time.Time     // when it came into the line
	contact time.Time     // when the edge last answered a join or a poll
	tabOpen bool          // the second tab has joined
}

// step is one step of a visitor's life; nil ends it.
type step func(context.Context) step

// live runs the visitor until its story ends or ctx does.
func (v *visitor) live(ctx context.Context) {
	if !sleep(ctx, v.plan.arrival) {
		return
	}
	next := v.arrive
	if v.plan.cheat {
		next = v.cheat
	}
	for next != nil && ctx.Err() == nil {
		next = next(ctx)
	}
}

// arrive opens the page. Whoever is let through at once goes in; everybody else joins the line.
func (v *visitor) arrive(ctx context.Context) step {
	a, ok := v.ask(ctx, v.pageRequest, nil)
	if !ok {
		return nil
	}
	if a.state() != "" {
		return v.join
	}
	return v.passed(ctx, a)
}

// passed judges an answer of the upstream to a visitor without a token: only with a new session in hand is it
// one who was admitted at once. A failure without the edge's mark may come from something in front of it.
func (v *visitor) passed(ctx context.Context, a answer) step {
	token := v.jar.get(v.accessName)
	switch {
	case token != "":
		return v.admit(token, true)
	case a.status < 400:
		v.passedWithoutToken(a, "opening the page")
		return nil
	}
	v.unexpected("opening the page", a)
	if !sleep(ctx, retryPause(a, 1, v.rng)) {
		return nil
	}
	return v.arrive
}

// join asks for a place, or for the same place again.
func (v *visitor) join(ctx context.Context) step {
	a, ok := v.ask(ctx, v.joinRequest, v.joins)
	if !ok {
		return nil
	}
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		if !v.visit.joined {
			v.unexpected("join", a)
			return nil
		}
		return v.refusedPoll("join again", a)
	}
	if !v.visit.joined {
		v.visit.joined, v.visit.outcome, v.since = true, stillWaiting, time.Now()
		v.tally.joined.Add(1)
		v.tally.waiting.Add(1)
	}
	next := v.told(ctx, a)
	if v.plan.tabs && !v.tabOpen && v.visit.outcome == stillWaiting {
		v.tabOpen = true
		return v.openTab
	}
	return next
}

// openTab joins from a second tab, which has the cookies of the first: it must find the same place.
func (v *visitor) openTab(ctx context.Context) step {
	a, ok := v.ask(ctx, v.joinRequest, v.joins)
	if !ok {
		return nil
	}
	if a.status != http.StatusCreated && a.status != http.StatusOK {
		return v.refusedPoll("join from a second tab", a)
	}
	return v.told(ctx, a)
}

// wait sleeps as long as the edge said and then does what the plan says for this poll.
func (v *visitor) wait(ctx context.Context) step {
	if v.cfg.GiveUp > 0 && time.Since(v.since) >= v.cfg.GiveUp {
		return v.leaveLine(gaveUp)
	}
	if !sleep(ctx, v.pause) {
		return nil
	}
	v.polls++
	switch v.polls {
	case v.plan.leaveAfter:
		return v.leave
	case v.plan.vanishAfter:
		return v.vanish
	case v.plan.reloadAfter:
		return v.reload
	}
	return v.poll
}

func (v *visitor) poll(ctx context.Context) step {
	a, ok := v.ask(ctx, v.pollRequest, v.pollTimes)
	if !ok {
		return nil
	}
	if a.status != http.StatusOK {
		return v.refusedPoll("poll", a)
	}
	return v.told(ctx, a)
}

// reload is F5: the page again, and then the join that the page makes.
func (v *visitor) reload(ctx context.Context) step {
	a, ok := v.ask(ctx, v.pageRequest, nil)
	if !ok {
		return nil
	}
	if a.state() == "" {
		return v.passed(ctx, a) // the line had emptied: the page itself opened
	}
	return v.join
}

// vanish is a phone in a tunnel: silence, and then most come back, half of them by reloading.
func (v *visitor) vanish(ctx context.Context) step {
	v.visit.vanished = true
	if v.plan.neverBack {
		return v.leaveLine(gaveUp)
	}
	if !sleep(ctx, v.plan.silence) {
		return nil
	}
	v.tally.cameBack.Add(1)
	v.track.forget()
	if v.rng.IntN(2) == 0 {
		return v.reload
	}
	return v.poll
}

func (v *visitor) leave(ctx context.Context) step {
	a, ok := v.ask(ctx, v.endRequest, nil)
	if !ok {
		return nil
	}
	if a.status != http.StatusNoContent {
		v.unexpected("leave", a)
	}
	return v.leaveLine(left)
}

// leaveLine ends the wait with o and the visitor's part in the count of those waiting.
func (v *visitor) leaveLine(o outcome) step {
	if v.visit.outcome == stillWaiting {
		v.tally.waiting.Add(-1)
	}
	v.visit.outcome = o
	switch o {
	case left:
		v.tally.left.Add(1)
	case gaveUp:
		v.tally.gaveUp.Add(1)
	case lost:
		v.tally.lost.Add(1)
	}
	return nil
}

// told reads the answer to a join or a poll.
func (v *visitor) told(ctx context.Context, a answer) step {
	p, err := readPlace(a.body)
	if err != nil {
		v.unexpected("an answer that cannot be read", a)
		v.pause = retryPause(a, 1, v.rng)
		return v.wait
	}
	v.heard(p)
	if p.State == "expired" {
		return v.leaveLine(lost)
	}
	if p.State != "admitted" {
		return v.wait
	}
	if p.AccessToken == "" {
		v.unexpected("admitted without an access token", a)
		return v.wait
	}
	if v.plan.tabs { // the other tab asks as well, and must be given the same session
		v.plan.tabs = false
		if again, ok := v.ask(ctx, v.pollRequest, v.pollTimes); ok && again.status == http.StatusOK {
			if q, err := readPlace(again.body); err == nil && q.AccessToken != "" && q.AccessToken != p.AccessToken {
				defer v.renew(q.AccessToken)
			}
		}
	}
	return v.admit(p.AccessToken, false)
}

// heard keeps what p says of the place and judges it against what was said before.
func (v *visitor) heard(p place) {
	now := time.Now()
	if !v.contact.IsZero() && now.Sub(v.contact) > patience(v.pause) {
		v.visit.late = true
		v.track.forget()
	}
	v.contact, v.pause = now, p.pause()
	if p.QueueID != "" {
		v.queueID = p.QueueID
		v.loot.place.Store(&p.QueueID)
	}
	if worse := v.track.see(p, v.cfg.Batch, v.tally.cameBack.Load()); worse != "" {
		v.visit.worse = append(v.visit.worse, worse)
		v.tally.worse.Add(1)
	}
	v.visit.number = v.track.number
}

// patience is how long a visitor may be silent without being taken for absent: the room waits for 90 s or three
// times the interval told, whichever is longer, and sees a poll with some delay.
func patience(told time.Duration) time.Duration {
	return max(90*time.Second, 3*told) - 10*time.Second
}

// refusedPoll judges an answer other than 200 to a visitor who has a place.
func (v *visitor) refusedPoll(what string, a answer) step {
	if a.status == http.StatusNotFound || a.status == http.StatusGone {
		v.note(fmt.Sprintf("visitor %d: %s: %d %s", v.visit.id, what, a.status, readProblem(a.body).Type))
		return v.leaveLine(lost)
	}
	v.unexpected(what, a)
	v.pause = retryPause(a, 1, v.rng)
	return v.wait
}

// ask sends a request until it is answered with something other than "not now" (a network error, 429, 502, 503,
// 504), sleeping between attempts as long as Retry-After says. It returns false when ctx ended first.
func (v *visitor) ask(ctx context.Context, build func() request, times *latency) (answer, bool) {
	for attempt := 1; ; attempt++ {
		start := time.Now()
		a, err := v.client.do(ctx, build())
		switch {
		case ctx.Err() != nil:
			return answer{}, false
		case err != nil:
			v.tally.networkErrors.Add(1)
			v.note("network: " + err.Error())
		default:
			times.record(time.Since(start))
			if !notNow(a) {
				v.jar.take(a.header)
				return a, true
			}
			v.tally.notNow.Add(1)
		}
		if !sleep(ctx, retryPause(a, attempt, v.rng)) {
			return answer{}, false
		}
	}
}
