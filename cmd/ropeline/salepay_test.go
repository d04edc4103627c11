//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// checkout opens a payment page.
func (b *buyer) checkout(h held) (page string, ok bool) {
	a, ok := b.insist(http.MethodPost, "/v1/holds/"+h.id+"/checkout", "{}", b.nextKey())
	if !ok || b.turnedAway(a) {
		return "", false
	}
	if a.CheckoutURL == "" && b.sale.hands.has(h) {
		b.sale.fault("%s: checkout of %v: %d %s", b.name, h, a.status, a.Code)
	}
	return a.CheckoutURL, a.CheckoutURL != ""
}

// page posts to a payment page: do is pay or decline. It is not ok if the page is closed.
func (b *buyer) page(page, do, how string) bool {
	body, _ := json.Marshal(map[string]string{"do": do, "how": how, "delay": map[string]string{"late": "500ms"}[how]})
	a, ok := b.insist(http.MethodPost, page, string(body), "")
	if ok && a.status != http.StatusOK {
		b.sale.count(fmt.Sprintf("page answered %d", a.status))
	}
	return ok && a.status == http.StatusOK
}

// pay pays for a hold and waits for what comes of it.
func (b *buyer) pay(h held, how string) {
	page, ok := b.checkout(h)
	if !ok {
		return
	}
	if how == "wrong_amount" {
		b.sale.hands.drop(h)
	}
	if !b.page(page, "pay", how) {
		return
	}
	b.sale.count("paid " + how)
	if how != "wrong_amount" && how != "never" {
		b.await(h)
	}
}

func (b *buyer) payTwice(h held) {
	first, ok := b.checkout(h)
	second, ok2 := b.checkout(h)
	if !ok || !ok2 || !b.page(first, "pay", "ok") {
		return
	}
	b.page(second, "pay", "ok")
	b.sale.count("paid for twice")
	b.await(h)
}

// await looks at the order for some time. One that was paid for in time is confirmed or still open, and nothing else.
func (b *buyer) await(h held) {
	for range 100 {
		a, ok := b.insist(http.MethodGet, "/v1/bookings/"+h.id, "", "")
		switch {
		case !ok:
			return
		case a.State == "CONFIRMED":
			b.sale.count("confirmed")
			b.sale.confirm(h)
			b.kept = append(b.kept, h)
			if len(b.kept) > b.sale.keep {
				b.cancel()
			}
			return
		case a.State != "HOLD" && b.sale.hands.has(h):
			b.sale.fault("%s: %v was paid for and is %d %v %s", b.name, h, a.status, a.State, a.Code)
			return
		}
		if !b.pause(40 * time.Millisecond) {
			return
		}
	}
	b.sale.count("not confirmed while looked at")
}

// cancel gives the oldest booking back.
func (b *buyer) cancel() {
	h := b.kept[0]
	b.kept = b.kept[1:]
	b.sale.unconfirm(h)
	b.sale.hands.drop(h)
	if a, ok := b.insist(http.MethodPost, "/v1/bookings/"+h.id+"/cancel", "", ""); ok && (a.status != http.StatusOK || a.State != "CANCELLED") {
		b.sale.fault("%s: cancel %v: %d %v %s", b.name, h, a.status, a.State, a.Code)
	}
	b.sale.count("cancelled")
}

// leaver is a hold whose customer is gone, and the page on which it is paid for once its time is up.
type leaver struct {
	held
	page string
}

// passTime lets the holds of those who left expire, until ctx ends. Who had opened a page pays there afterwards.
func (s *sale) passTime(ctx context.Context) {
	b := s.newBuyer("late", 0)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case l := <-s.leavers:
			s.hands.drop(l.held)
			for s.stand.pass(ctx, parseID(l.id)) != nil && ctx.Err() == nil {
				b.pause(100 * time.Millisecond)
			}
			if l.page != "" && ctx.Err() == nil {
				body := bytes.NewReader([]byte(`{"do":"pay","how":"ok"}`))
				if res, err := b.c.Post(l.page, "application/json", body); err == nil {
					_ = res.Body.Close()
					s.count(fmt.Sprintf("page after its time answered %d", res.StatusCode))
				}
			}
		}
	}
}
