package seed

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"ropeline/booking"
)

// Event is what the file says of an event.
type Event struct {
	booking.Event                 // without its layout; Map is the hall
	Blocked       map[string]bool // by seat code: not for sale
	Channels      map[string]int  // by seat code: 1 to 62; a seat that is not here is on channel 0
}

var (
	currencyShape = regexp.MustCompile(`^[A-Z]{3}$`)
	typeShape     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)
	roomShape     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
)

// event reads one entry of events.
func event(n node, halls map[int64]*Hall) Event {
	e := Event{Event: booking.Event{Kind: "showtime", Zone: "UTC", Status: "ON_SALE", HoldTTL: 10 * time.Minute, MaxSeats: 8,
		HoldsPerMin: 5, LatePolicy: "refund"}}
	var prices, blocked, channels node
	n.fields(map[string]func(node){
		"id":               func(v node) { e.ID = v.whole(1, math.MaxInt64) },
		"hall":             func(v node) { e.Map = v.whole(1, math.MaxInt64) },
		"kind":             func(v node) { e.Kind = v.oneOf("showtime", "concert") },
		"name":             func(v node) { e.Name = v.text(200) },
		"starts_at":        func(v node) { e.StartsAt = v.instant() },
		"zone":             func(v node) { e.Zone = zone(v) },
		"currency":         func(v node) { e.Currency = v.match(currencyShape, "a currency, as VND or EUR") },
		"status":           func(v node) { e.Status = v.oneOf("DRAFT", "ON_SALE", "PAUSED", "CLOSED", "CANCELLED") },
		"opens_at":         func(v node) { e.OpensAt = v.instant() },
		"closes_at":        func(v node) { e.ClosesAt = v.instant() },
		"hold":             func(v node) { e.HoldTTL = v.duration(time.Second, 24*time.Hour) },
		"checkout":         func(v node) { e.CheckoutTTL = v.duration(time.Second, 24*time.Hour) },
		"max_hold_age":     func(v node) { e.MaxHoldAge = v.duration(time.Second, 48*time.Hour) },
		"max_seats":        func(v node) { e.MaxSeats = int(v.whole(1, 50)) },
		"customer_cap":     func(v node) { e.CustomerCap = int(v.whole(0, 100_000)) },
		"holds_per_minute": func(v node) { e.HoldsPerMin = int(v.whole(0, 100_000)) },
		"redis_gate":       func(v node) { e.RedisGate = v.boolean() },
		"rooms":            func(v node) { v.each(func(r node) { e.Rooms = append(e.Rooms, r.match(roomShape, "a room's id")) }) },
		"late_policy":      func(v node) { e.LatePolicy = v.oneOf("refund", "reacquire") },
		"prices":           func(v node) { prices = v },
		"blocked":          func(v node) { blocked = v },
		"channels":         func(v node) { channels = v },
	}, "id", "hall", "name", "starts_at", "currency", "prices")
	e.times(n)
	if prices.Node != nil {
		e.Prices = priceList(prices)
	}
	e.seats(n, halls, blocked, channels)
	return e
}

// times fills in what follows from the time of a hold, and checks what must fit.
func (e *Event) times(n node) {
	if e.CheckoutTTL == 0 {
		e.CheckoutTTL = e.HoldTTL * 4 / 5
	}
	if e.MaxHoldAge == 0 {
		e.MaxHoldAge = 2 * e.HoldTTL
	}
	if e.ClosesAt.IsZero() {
		e.ClosesAt = e.StartsAt
	}
	if e.CheckoutTTL > 0 && e.CheckoutTTL < 30*time.Second {
		n.wrong("checkout of %s leaves nobody time to pay, allowed is 30s or more", e.CheckoutTTL)
	}
	if e.CheckoutTTL >= e.HoldTTL && e.HoldTTL > 0 {
		n.wrong("checkout of %s is not shorter than hold of %s", e.CheckoutTTL, e.HoldTTL)
	}
	if e.MaxHoldAge < e.HoldTTL {
		n.wrong("max_hold_age of %s is shorter than hold of %s", e.MaxHoldAge, e.HoldTTL)
	}
	if !e.ClosesAt.IsZero() && !e.OpensAt.Before(e.ClosesAt) {
		n.wrong("closes_at is not after opens_at")
	}
}

// seats checks the event against its hall.
func (e *Event) seats(n node, halls map[int64]*Hall, blocked, channels node) {
	h := halls[e.Map]
	if h == nil {
		if e.Map != 0 {
			n.wrong("hall %d is not in this file", e.Map)
		}
		return
	}
	for _, tier := range h.tiers() {
		if len(e.Prices) > 0 && !slices.ContainsFunc(e.Prices, func(p booking.Price) bool { return p.Tier == tier }) {
			n.wrong("prices has none for tier %q of hall %d", tier, h.ID)
		}
	}
	e.Blocked, e.Channels = map[string]bool{}, map[string]int{}
	if blocked.Node != nil {
		for _, code := range h.pick(blocked) {
			e.Blocked[code] = true
		}
	}
	if channels.Node == nil {
		return
	}
	channels.pairs(func(name, value node) {
		channel := int(name.whole(1, 62))
		for _, code := range h.pick(value) {
			if other, twice := e.Channels[code]; twice && other != channel {
				value.wrong("seat %q is on channel %d already", code, other)
				return
			}
			e.Channels[code] = channel
		}
	})
}

// priceList reads {tier: amount} and {tier: {ticket type: amount}}, amounts in minor units.
func priceList(n node) []booking.Price {
	const most = 1_000_000_000_000
	prices := map[[2]string]int64{}
	n.pairs(func(tier, value node) {
		t := tier.match(tierShape, tierWords)
		if value.Kind != yaml.MappingNode {
			prices[[2]string{t, "standard"}] = value.whole(0, most)
			return
		}
		value.pairs(func(kind, amount node) {
			prices[[2]string{t, kind.match(typeShape, tierWords)}] = amount.whole(0, most)
		})
	})
	list := make([]booking.Price, 0, len(prices))
	for _, k := range slices.SortedFunc(maps.Keys(prices), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		list = append(list, booking.Price{Tier: k[0], TicketType: k[1], Amount: prices[k]})
	}
	if len(list) == 0 && n.Kind == yaml.MappingNode {
		n.wrong("names no price")
	}
	return list
}

func zone(n node) string {
	s := n.text(64)
	if s == "" {
		return ""
	}
	if _, err := time.LoadLocation(s); err != nil || s == "Local" {
		n.wrong("%q is not a time zone, as Asia/Ho_Chi_Minh", s)
	}
	return s
}
