//go:build unix

package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"ropeline/internal/pgbox"
)

// The bank is outside and goes on calling back; whatever it took must end as a booking or as one refund, wherever the node was
// in its work when it died.
func TestSale_NoMoneyIsLostBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	const seats, crashes = 650, 10
	s := newStand(t, pgbox.Config{}, "A..Z", seats/26)
	here := s.newSpot("booking")
	s.openBank(here.listen)
	node := s.start(here)
	sale := s.open(openEvent, 48, 8, 20*time.Millisecond, here.listen)
	sale.more(20)
	for range crashes {
		time.Sleep(rand.N(500 * time.Millisecond))
		node.crash()
		node = s.start(here)
		sale.more(10)
	}
	sale.close()
	s.reconcile()
	s.settle()
	sale.check(t)
	sold := query[int64](s, `SELECT count(*) FROM bk.seat WHERE status = 'SOLD'`)[0]
	booked := query[int64](s, `SELECT coalesce(sum(quantity), 0)::bigint FROM bk.booking WHERE status = 'CONFIRMED'`)[0]
	t.Logf("%d of %d seats are sold after %d crashes", sold, seats, crashes)
	if sold != booked || sold > seats {
		t.Errorf("%d seats of %d are sold and %d are in confirmed bookings", sold, seats, booked)
	}
	s.checkMoney(s.bank.Payments())
	s.audited()
}
