package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	mostTries   = 8                // holds that a buyer tries for
	confirmFor  = 30 * time.Second // how long a buyer waits to hear of its payment, or of its refund
	giveBack    = 55 * time.Second // the room may take a slot back a minute after its visitor has bought or given up
	thinkAgain  = 300 * time.Millisecond
	longestLook = 2 * time.Second
)

// shop looks for seats, holds them, and does with them what the buyer wishes. It returns how to see the story to its end
// once the session is over: nil if there is nothing left to see. ok is false when ctx has ended or the gate has closed.
func (v *visitor) shop(ctx context.Context) (settle func(context.Context), ok bool) {
	b := &buyer{visitor: v, wish: newWish(v.cfg, v.visit.id), taken: map[string]bool{}}
	if !b.findSeats(ctx, "") {
		return nil, ctx.Err() == nil && !v.out
	}
	v.mayEnd(time.Time{})
	if b.wish.swap && !b.swap(ctx) || b.wish.extend && !b.extend(ctx) || !b.think(ctx) {
		return nil, ctx.Err() == nil && !v.out
	}
	switch b.wish.ending {
	case walksAway:
		v.mayEnd(time.Now().Add(time.Duration(b.hold.ExpiresInSeconds) * time.Second))
		return nil, true
	case changesMind:
		return nil, b.release(ctx)
	}
	return b.pay(ctx)
}

// think pauses between two steps.
func (b *buyer) think(ctx context.Context) bool {
	return sleep(ctx, b.plan.stay/time.Duration(b.cfg.Requests+3))
}

// call makes a request of the API. Its token may have been renewed by the answer. A 403 means that the gate has closed: right
// only if the session is over.
func (b *buyer) call(ctx context.Context, build func() request) (answer, bool) {
	a, ok := b.ask(ctx, build, b.shopTimes)
	if !ok {
		return a, false
	}
	b.renew(b.jar.get(b.accessName))
	b.renew(a.header.Get("X-Queue-Token"))
	if key := a.header.Get("X-Customer-Key"); key != "" {
		b.customerKey = key
	}
	if a.status == http.StatusForbidden || a.state() != "" {
		b.turnedAway(a)
		b.out = true
		return a, false
	}
	return a, true
}

// post makes one POST with one key however often it is sent.
func (b *buyer) post(ctx context.Context, path string, body any) (answer, bool) {
	key := b.key()
	return b.call(ctx, func() request { return b.apiRequest(http.MethodPost, path, key, body) })
}

// findSeats holds seats, others if somebody was faster; instead of the hold replaces, if that is not "". False: it has none
// but those that it had.
func (b *buyer) findSeats(ctx context.Context, replaces string) bool {
	for range mostTries {
		free, ok := b.look(ctx)
		if !ok {
			return false
		}
		seats := b.choose(free)
		if len(seats) == 0 {
			if replaces == "" {
				b.tally.soldOut.Add(1)
			}
			return false
		}
		if held, again := b.try(ctx, seats, replaces); held || !again {
			return held
		}
		if !b.think(ctx) {
			return false
		}
	}
	b.tally.tooSlow.Add(1)
	return false
}

// look reads the seat map.
func (b *buyer) look(ctx context.Context) (free []string, ok bool) {
	a, ok := b.call(ctx, func() request {
		req := b.apiRequest(http.MethodGet, b.eventAPI+"/seats", "", nil)
		req.most = maxSeatMap
		return req
	})
	if !ok {
		return nil, false
	}
	free, err := readSeatMap(a.body)
	if err != nil || a.status != http.StatusOK {
		b.unexpected("seat map", a)
		return nil, false
	}
	return free, true
}

// try asks for seats once. again: others may be had.
func (b *buyer) try(ctx context.Context, seats []string, replaces string) (held, again bool) {
	body := map[string]any{"seats": seats}
	if replaces != "" {
		body["replaces"] = replaces
		b.hands.give(replaces, b.hold.Seats)
	}
	asked, old, oldUntil := time.Now(), b.hold, b.until
	a, ok := b.post(ctx, b.eventAPI+"/holds", body)
	if !ok {
		return false, false
	}
	switch a.status {
	case http.StatusCreated, http.StatusOK:
		if h, until, err := readHold(a, asked); err == nil {
			b.hold, b.until = h, until
			b.tally.holds.Add(1)
			b.hands.take(h.HoldID, h.Seats, until, false, time.Now())
			return true, false
		}
	case http.StatusConflict:
		if replaces != "" && readCode(a.body) != "hold-gone" {
			b.hands.take(replaces, old.Seats, oldUntil, false, time.Now()) // it stands as it did
		}
		return false, b.lost(a, seats)
	case http.StatusUnprocessableEntity: // more than the event gives out at once
		if b.wish.seats > 1 {
			b.wish.seats = 1
			if replaces != "" {
				b.hands.take(replaces, old.Seats, oldUntil, false, time.Now())
			}
			return false, true
		}
	}
	b.unexpected("hold", a)
	return false, false
}

// lost learns from a refusal.
func (b *buyer) lost(a answer, seats []string) (again bool) {
	b.tally.taken.Add(1)
	var p struct {
		Code      string   `json:"code"`
		Conflicts []string `json:"conflicts"`
	}
	if json.Unmarshal(a.body, &p) != nil || p.Code != "seats-taken" {
		if p.Code != "cap-reached" && p.Code != "not-on-sale" && p.Code != "hold-gone" {
			b.unexpected("hold", a)
		}
		return false
	}
	for _, s := range p.Conflicts {
		if !slices.Contains(seats, s) {
			b.unexpected("hold: a conflict about a seat that nobody asked for", a)
		}
		b.taken[s] = true
	}
	if len(b.taken) > 50 {
		clear(b.taken) // some of them may be free again
	}
	return true
}

// swap takes other seats for those it holds, in one step. It stays with the old ones where there are no others.
func (b *buyer) swap(ctx context.Context) bool {
	if !b.think(ctx) {
		return false
	}
	if b.findSeats(ctx, b.hold.HoldID) {
		b.tally.swaps.Add(1)
	}
	return ctx.Err() == nil && !b.out
}

func (b *buyer) extend(ctx context.Context) bool {
	asked := time.Now()
	a, ok := b.post(ctx, "/holds/"+b.hold.HoldID+"/extend", nil)
	if !ok {
		return false
	}
	if a.status == http.StatusOK {
		if h, until, err := readHold(a, asked); err == nil {
			b.hold, b.until = h, until
			b.hands.take(h.HoldID, h.Seats, until, false, time.Now())
			return true
		}
	}
	if a.status != http.StatusConflict {
		b.unexpected("extend", a)
	}
	return true
}

// release gives the hold back.
func (b *buyer) release(ctx context.Context) bool {
	b.hands.give(b.hold.HoldID, b.hold.Seats)
	a, ok := b.call(ctx, func() request { return b.apiRequest(http.MethodDelete, "/holds/"+b.hold.HoldID, "", nil) })
	if !ok {
		return false
	}
	if a.status != http.StatusNoContent {
		b.unexpected("release", a)
	}
	b.tally.released.Add(1)
	b.mayEnd(time.Now())
	return true
}

// pay pays as the buyer wishes, and waits for the seats.
func (b *buyer) pay(ctx context.Context) (settle func(context.Context), ok bool) {
	first, ok := b.checkout(ctx)
	if !ok {
		return nil, ctx.Err() == nil && !b.out
	}
	paid, refunds := 0, 0
	switch b.wish.ending {
	case declinedFirst:
		b.press(ctx, first, "decline")
		b.tally.declined.Add(1)
		if first, ok = b.checkout(ctx); !ok {
			return nil, ctx.Err() == nil && !b.out
		}
	case paysTwice:
		if second, ok := b.checkout(ctx); ok && b.press(ctx, second, "pay") {
			paid++
		}
	}
	if b.press(ctx, first, "pay") {
		paid++
	}
	if paid == 0 {
		return nil, ctx.Err() == nil
	}
	status, ok := b.outcome(ctx)
	if !ok {
		return nil, ctx.Err() == nil
	}
	refunds = paid
	if status == "CONFIRMED" {
		refunds--
		if b.wish.ending == cancelsLater && b.think(ctx) && b.cancel(ctx) {
			refunds++
		}
	}
	b.mayEnd(time.Now())
	if refunds == 0 {
		return nil, true
	}
	return func(ctx context.Context) { b.awaitRefunds(ctx, refunds) }, true
}

// mostCheckouts is how often a payment page is asked for before a buyer despairs: the provider may be away.
const mostCheckouts = 5

// checkout asks for a payment page.
func (b *buyer) checkout(ctx context.Context) (*url.URL, bool) {
	key := b.key()
	for try := 1; ; try++ {
		a, ok := b.call(ctx, func() request {
			return b.apiRequest(http.MethodPost, "/holds/"+b.hold.HoldID+"/checkout", key, map[string]any{})
		})
		if !ok {
			return nil, false
		}
		if a.status == http.StatusCreated || a.status == http.StatusOK {
			if page, err := checkoutPage(a.body); err == nil {
				return page, true
			}
		}
		code := readCode(a.body)
		if code == "hold-gone" || code == "hold-expiring" || code == "already-confirmed" {
			b.note("checkout: " + code)
			return nil, false
		}
		if a.status < 500 || try == mostCheckouts {
			b.unexpected("checkout", a)
			return nil, false
		}
		if !sleep(ctx, retryPause(a, try, b.rng)) {
			return nil, false
		}
	}
}

// press presses a button of a payment page, and returns whether the page took it.
func (b *buyer) press(ctx context.Context, page *url.URL, button string) bool {
	a, ok := b.ask(ctx, func() request { return payRequest(page, button) }, nil)
	if ok && a.status >= 400 && a.status != http.StatusConflict {
		b.unexpected("payment page", a)
	}
	return ok && a.status < 400
}

// outcome waits until the booking is no longer a hold. ok is false if that was not to be seen in time.
func (b *buyer) outcome(ctx context.Context) (status string, ok bool) {
	got, ok := b.watch(ctx, func(got bookingAnswer) bool { return got.Status != "HOLD" && got.Status != "EXPIRED" })
	if !ok {
		b.tally.unsettled.Add(1)
		return "", false
	}
	if got.Status == "CONFIRMED" {
		b.tally.confirmed.Add(1)
		b.hands.take(b.hold.HoldID, b.hold.Seats, time.Time{}, true, time.Now())
	} else {
		b.hands.give(b.hold.HoldID, b.hold.Seats)
		b.tally.late.Add(1)
	}
	return got.Status, true
}

// watch looks at the booking until done. Neither needs the session.
func (b *buyer) watch(ctx context.Context, done func(bookingAnswer) bool) (got bookingAnswer, ok bool) {
	pause, until := thinkAgain/3, time.Now().Add(confirmFor)
	for time.Now().Before(until) {
		a, ok := b.ask(ctx, func() request { return b.apiRequest(http.MethodGet, "/bookings/"+b.hold.HoldID, "", nil) }, b.shopTimes)
		if !ok {
			return got, false
		}
		if a.status != http.StatusOK || json.Unmarshal(a.body, &got) != nil {
			b.unexpected("booking", a)
			return got, false
		}
		if done(got) {
			return got, true
		}
		if !sleep(ctx, pause) {
			return got, false
		}
		pause = min(2*pause, longestLook)
	}
	return got, false
}

// cancel gives bought seats back for the money.
func (b *buyer) cancel(ctx context.Context) bool {
	b.hands.give(b.hold.HoldID, b.hold.Seats)
	a, ok := b.post(ctx, "/bookings/"+b.hold.HoldID+"/cancel", nil)
	if ok && a.status == http.StatusOK {
		b.tally.cancelled.Add(1)
		return true
	}
	if ok {
		b.unexpected("cancel", a)
		b.hands.take(b.hold.HoldID, b.hold.Seats, time.Time{}, true, time.Now())
	}
	return false
}

// awaitRefunds waits until as many refunds are done as payments were too many.
func (b *buyer) awaitRefunds(ctx context.Context, want int) {
	got, _ := b.watch(ctx, func(got bookingAnswer) bool { done, _ := got.refunds(); return done >= want })
	done, _ := got.refunds()
	b.tally.refunded.Add(int64(done))
	if done > want {
		b.note(fmt.Sprintf("booking %s: %d refunds, %d payments too many", b.hold.HoldID, done, want))
	}
	if missing := want - done; missing > 0 {
		b.tally.unsettled.Add(int64(missing))
	}
}

// mayEnd notes from when on the room may take the slot back by itself; the zero time: it may not.
func (v *visitor) mayEnd(over time.Time) {
	last := &v.visit.sessions[len(v.visit.sessions)-1]
	last.freed = time.Time{}
	if !over.IsZero() {
		last.freed = over.Add(giveBack)
	}
}

func readCode(body []byte) string {
	var p struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(body, &p) != nil {
		return ""
	}
	return p.Code
}
