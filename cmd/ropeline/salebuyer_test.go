//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is how long an answer may take, whatever is away.
const longest = 10 * time.Second

// buyer is a customer of a sale who does what comes to mind, and repeats what was not answered with the key of before.
type buyer struct {
	sale       *sale
	c          *http.Client
	rng        *rand.Rand
	name       string
	token, key string // access token, customer key
	asked      int
	kept       []held // confirmed bookings, oldest first
}

// held is a hold, or what became of it.
type held struct {
	id    string
	seats []string
}

// said is an answer of the API, as far as buyers look.
type said struct {
	status      int
	Code        string   `json:"code"`
	Type        string   `json:"type"`
	HoldID      string   `json:"holdId"`
	State       any      `json:"status"`
	Seats       []string `json:"seats"`
	CheckoutURL string   `json:"checkoutUrl"`
	AccessToken string   `json:"accessToken"`
	QueueID     string   `json:"queueId"`
}

// ask does a request once; status 0 is no answer. It holds every answer to the rules for errors.
func (b *buyer) ask(method, target, body, key string) said {
	if strings.HasPrefix(target, "/") {
		target = "http://" + b.sale.address(b.rng) + target
	}
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		b.sale.fault("%v", err)
		return said{}
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range map[string]string{"X-Queue-Token": b.token, "X-Customer-Key": b.key, "Idempotency-Key": key} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	began := time.Now()
	res, err := b.c.Do(req)
	if took := time.Since(began); took > longest {
		b.sale.fault("%s %s took %v: %v", method, target, took.Round(time.Millisecond), err)
	}
	if err != nil {
		b.sale.count("no answer")
		return said{}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		b.sale.count("no answer")
		return said{}
	}
	b.key = cmp.Or(res.Header.Get("X-Customer-Key"), b.key)
	b.sale.lastKey.Store(b.key)
	a := said{status: res.StatusCode}
	_ = json.Unmarshal(data, &a) // a page is no JSON
	if a.status >= 500 {
		b.sale.count("answered " + strconv.Itoa(a.status))
		isProblem := strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json")
		if a.status != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !isProblem {
			b.sale.fault("%s %s: %d %v %.300s", method, target, a.status, res.Header, data)
		}
	}
	return a
}

// insist repeats a request until the answer is final. It is not ok if the sale ends first: then nobody knows what became of it.
func (b *buyer) insist(method, path, body, key string) (a said, ok bool) {
	for {
		a = b.ask(method, path, body, key)
		if a.status != 0 && a.status < 500 {
			return a, true
		}
		if !b.pause(100 * time.Millisecond) {
			return said{}, false
		}
	}
}

// pause waits, up to twice d; false once the sale has ended.
func (b *buyer) pause(d time.Duration) bool {
	select {
	case <-b.sale.ended:
		return false
	case <-time.After(d/2 + rand.N(d)):
		return true
	}
}

func (b *buyer) nextKey() string {
	b.asked++
	return fmt.Sprintf("%s-%d", b.name, b.asked)
}

// join stands in line until the access token is there.
func (b *buyer) join() {
	const line = "/_ropeline/events/show/queue"
	a, ok := b.insist(http.MethodPost, line, "{}", "")
	for ok && a.AccessToken == "" {
		if !b.pause(200 * time.Millisecond) {
			return
		}
		a, ok = b.insist(http.MethodGet, line+"/"+a.QueueID, "", "")
	}
	b.token = a.AccessToken
}

// step is one thing that a customer does from beginning to end.
func (b *buyer) step() {
	if b.sale.event == roomEvent && b.token == "" {
		b.join()
	}
	h, ok := b.hold(b.pick(1+b.rng.IntN(3)), nil)
	if !ok {
		return
	}
	switch n := b.rng.IntN(100); {
	case n < 6:
		b.sale.count("walked away")
		b.sale.left(leaver{held: h})
	case n < 12:
		b.sale.count("came back late")
		if page, ok := b.checkout(h); ok {
			b.sale.left(leaver{h, page})
		}
	case n < 24:
		b.release(h)
	case n < 36:
		seats := append(b.pick(1+b.rng.IntN(2)), h.seats[:b.rng.IntN(2)]...) // some keep a seat
		if swapped, ok := b.hold(unique(seats), &h); ok {
			b.sale.count("swapped")
			h = swapped
		}
		b.pay(h, "ok")
	case n < 44:
		if page, ok := b.checkout(h); ok && b.page(page, "decline", "") {
			b.sale.count("declined")
			b.pay(h, "ok")
		}
	case n < 50:
		b.payTwice(h)
	default:
		b.pay(h, []string{"ok", "ok", "ok", "ok", "twice", "twice", "late", "reordered", "never", "wrong_amount"}[b.rng.IntN(10)])
	}
}

func (b *buyer) pick(n int) (seats []string) {
	all := b.sale.stand.seats
	for range n {
		seats = append(seats, all[b.rng.IntN(len(all))])
	}
	return unique(seats)
}

func unique(seats []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range seats {
		if !seen[s] {
			seen[s], out = true, append(out, s)
		}
	}
	return out
}

// hold asks for seats, instead of those of an old hold if there is one. A swap that is refused leaves the old hold.
func (b *buyer) hold(seats []string, old *held) (held, bool) {
	ask := map[string]any{"seats": seats}
	if old != nil {
		ask["replaces"] = old.id
		if !b.sale.hands.drop(*old) {
			return held{}, false
		}
	}
	body, _ := json.Marshal(ask)
	a, ok := b.insist(http.MethodPost, fmt.Sprintf("/v1/events/%d/holds", b.sale.event), string(body), b.nextKey())
	switch {
	case !ok:
	case a.status == http.StatusCreated, a.status == http.StatusOK && a.State == "HOLD":
		h := held{a.HoldID, a.Seats}
		if a.status == http.StatusOK {
			b.sale.count("held, told the second time")
		}
		b.sale.count("held")
		b.sale.holds.Add(1)
		b.sale.hands.take(h)
		return h, true
	case a.status == http.StatusConflict && a.Code == "seats-taken":
		b.sale.count("lost")
		if old != nil {
			b.sale.hands.take(*old)
		}
	case a.status == http.StatusForbidden:
		b.sale.count("turned away")
		b.token = ""
	default:
		b.sale.fault("%s: hold %v instead of %v: %d %s", b.name, seats, old, a.status, a.Code)
	}
	return held{}, false
}

func (b *buyer) release(h held) {
	if !b.sale.hands.drop(h) {
		return
	}
	if a, ok := b.insist(http.MethodDelete, "/v1/holds/"+h.id, "", ""); ok && a.status != http.StatusNoContent && !b.turnedAway(a) {
		b.sale.fault("%s: release %v: %d %s", b.name, h, a.status, a.Code)
	}
	b.sale.count("released")
}

// turnedAway notes that a token is good no more.
func (b *buyer) turnedAway(a said) bool {
	if a.status != http.StatusForbidden {
		return false
	}
	b.sale.count("turned away")
	b.token = ""
	return true
}
