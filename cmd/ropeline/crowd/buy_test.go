package crowd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// buyers are a crowd that wants more seats than the shop has.
func buyers() Config {
	cfg := smallCrowd()
	cfg.Target, cfg.Buy, cfg.Visitors, cfg.Stay = "http://edge.test/events/7/", true, 300, 3*time.Second
	return cfg
}

// sellInBubble runs cfg against shop in memory and in fake time.
func sellInBubble(t *testing.T, shop *fakeShop, cfg Config) Report {
	t.Helper()
	var report Report
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go shop.edge.run(ctx)
		cfg.client = shop
		var err error
		if report, err = Run(ctx, cfg); err != nil {
			t.Errorf("Run: %v", err)
		}
		cancel()
		synctest.Wait()
	})
	return report
}

func TestBuy_ASaleWithoutFault(t *testing.T) {
	shop := newFakeShop(20)
	r := sellInBubble(t, shop, buyers())
	s := r.Sales
	if broken := r.Broken(); len(broken) > 0 || len(r.Notes) > 0 || r.Unexpected > 0 {
		t.Errorf("broken: %q\n%q\nnotes: %q", broken, r.Examples, r.Notes)
	}
	sold, refunded := shop.counts()
	if s.Sold != sold || s.Refunded != refunded || s.Unsettled != 0 {
		t.Errorf("the crowd counts %d sold, %d refunded and %d unsettled; the shop %d and %d", s.Sold, s.Refunded, s.Unsettled, sold, refunded)
	}
	for name, n := range map[string]int{
		"sold": s.Sold, "refunded": s.Refunded, "refused holds": s.Taken, "swapped": s.Swapped, "released": s.Released,
		"cancelled": s.Cancelled, "declined": s.Declined, "sold out": s.SoldOut, "bookings": s.Bookings, "answers": int(s.Shop.Count),
	} {
		if n == 0 {
			t.Errorf("%s: 0, want some", name)
		}
	}
}

func TestBuy_FaultsOfTheShopAreCaught(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults shopFaults
		want   string
	}{
		{"a seat sold twice", shopFaults{sellTwice: true}, "double-sold"},
		{"holds without a token", shopFaults{openHolds: true}, "passed without a token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shop := newFakeShop(20)
			shop.faults = c.faults
			wantBroken(t, sellInBubble(t, shop, buyers()), c.want, nil)
		})
	}
}

func TestBuy_MoneyThatIsNeitherSeatsNorBackIsToldOf(t *testing.T) {
	shop := newFakeShop(20)
	shop.faults.keepMoney = true
	if r := sellInBubble(t, shop, buyers()); r.Sales.Unsettled == 0 || r.Sales.Refunded != 0 {
		t.Errorf("%d unsettled, %d refunded; want some and none", r.Sales.Unsettled, r.Sales.Refunded)
	}
}

func TestBuy_RetriesWithTheSameKeyWhenToldTo(t *testing.T) {
	shop := newFakeShop(20)
	shop.faults.busy = true
	r := sellInBubble(t, shop, buyers())
	if len(r.Broken()) > 0 || r.ToldToRetry == 0 || r.Sales.Sold == 0 || r.Unexpected > 0 {
		t.Errorf("broken %q, told to retry %d, sold %d, unexpected %d\n%q", r.Broken(), r.ToldToRetry, r.Sales.Sold, r.Unexpected, r.Notes)
	}
}

func TestBuy_SlotsTakenBackAfterAPurchaseAreNoBrokenPromise(t *testing.T) {
	now := time.Now()
	s := session{received: now, expires: now.Add(10 * time.Minute), freed: now.Add(time.Minute)}
	if got := s.until(); got != now.Add(time.Minute) {
		t.Errorf("it lasts %s, want a minute", got.Sub(now))
	}
	s.ended = now.Add(time.Second)
	if got := s.until(); got != s.ended {
		t.Errorf("it lasts %s, want until its end", got.Sub(now))
	}
}

func TestBuy_NeedsAnEvent(t *testing.T) {
	cfg := buyers()
	for target, ok := range map[string]bool{
		"http://edge.test/events/7/": true, "http://edge.test/v1/events/7": true, "http://edge.test/events/7?from=mail": true,
		"http://edge.test/": false, "http://edge.test/events/spring/": false, "http://edge.test/x/events/7/": false,
	} {
		cfg.Target = target
		if _, err := cfg.complete(time.Now()); (err == nil) != ok || err != nil && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "buy:")) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestBuy_ReportAsText(t *testing.T) {
	r := sellInBubble(t, newFakeShop(5), buyers())
	text := func() string {
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return "\n" + b.String()
	}
	got := text()
	for _, want := range []string{"\nsold: ", "\nheld: 0\n", "\nrefunded: ", "\ndouble-sold: 0\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "audit") {
		t.Error("it speaks of an audit that nobody made")
	}
	r.Sales.Audited = true
	if !strings.Contains(text(), "\naudit: clean\n") || len(r.Broken()) != 0 {
		t.Errorf("an audit that found nothing: %q", r.Broken())
	}
	r.Sales.Findings = []string{"seats: F5 has two owners"}
	if !strings.Contains(text(), "\naudit: seats: F5 has two owners\n") || len(r.Broken()) != 1 {
		t.Errorf("an audit that found something: %q", r.Broken())
	}
}

func TestHands_OneSeatInTwoHands(t *testing.T) {
	now := time.Now()
	var h hands
	h.take("a", []string{"F5", "F6"}, now.Add(time.Minute), false, now)
	h.take("b", []string{"F6"}, now.Add(time.Hour), false, now.Add(time.Minute)) // a's time is up
	h.take("b", []string{"F6"}, time.Time{}, true, now.Add(2*time.Minute))
	h.give("a", []string{"F6"}) // not a's any more
	if d := h.doubles(); d.count != 0 {
		t.Errorf("double: %v", d)
	}
	h.take("c", []string{"F6"}, now.Add(24*time.Hour), false, now.Add(3*time.Minute))
	if d := h.doubles(); d.count != 1 || !strings.Contains(d.examples[0], "F6") {
		t.Errorf("double: %v, want F6", d)
	}
	h.give("c", []string{"F6"})
	h.take("d", []string{"F6", "F7"}, time.Time{}, true, now)
	if sold, held := h.count(now); sold != 2 || held != 1 {
		t.Errorf("%d sold, %d held; want 2 and F5", sold, held)
	}
}

func TestWish_EveryEndingIsWished(t *testing.T) {
	total, seen := 0, map[ending]int{}
	for _, c := range chances {
		total += c
	}
	for i := range 2000 {
		w := newWish(Config{Seed: 3}, i)
		seen[w.ending]++
		if w.seats < 1 || w.seats > 4 || w != newWish(Config{Seed: 3}, i) {
			t.Fatalf("wish %d: %+v", i, w)
		}
	}
	if total != 100 || len(seen) != endings {
		t.Errorf("chances add up to %d, endings seen: %v", total, seen)
	}
}
