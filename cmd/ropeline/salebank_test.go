//go:build unix

package main

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ropeline/booking/payment/sandbox"
)

// books are what the database says of a payment.
type books struct {
	Payment           uuid.UUID
	Status, Booking   string // of the payment, of its booking
	Refunds, Returned int64  // refunds, and the money of those that are done
}

// checkMoney compares the bank with the database: whatever the bank took has bought a booking or went back, and only one of both.
func (s *stand) checkMoney(bank []sandbox.Payment) {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `
SELECT p.payment_id, p.status, b.status,
       (SELECT count(*) FROM bk.refund r WHERE r.payment_id = p.payment_id),
       (SELECT coalesce(sum(amount_minor), 0)::bigint FROM bk.refund r WHERE r.payment_id = p.payment_id AND r.status = 'DONE')
  FROM bk.payment p
  JOIN bk.booking b USING (booking_id)`)
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[books])
	if err != nil {
		s.t.Fatal(err)
	}
	known := map[uuid.UUID]books{}
	for _, b := range all {
		known[b.Payment] = b
	}
	taken, bought, back := 0, 0, 0
	for _, p := range bank {
		b, there := known[p.ID()]
		delete(known, p.ID())
		buys := b.Status == "SUCCEEDED" && b.Booking == "CONFIRMED" && b.Refunds == 0 && len(p.Refunds) == 0 && p.Captured == p.Order.Amount
		returns := b.Status == "REFUNDED" && b.Refunds == 1 && b.Returned == p.Captured && p.Returned() == p.Captured && len(p.Refunds) == 1
		switch {
		case p.Captured == 0 && there && (b.Status == "DECLINED" || b.Status == "EXPIRED"):
		case p.Captured > 0 && there && buys:
			taken, bought = taken+1, bought+1
		case p.Captured > 0 && there && returns:
			taken, back = taken+1, back+1
		default:
			s.t.Errorf("payment %s: the bank says %s, took %d and gave %v back; the database says %+v", p.ID(), p.Status, p.Captured, p.Refunds, b)
		}
	}
	for _, b := range known {
		if b.Status != "EXPIRED" {
			s.t.Errorf("the bank never heard of a payment that the database has: %+v", b)
		}
	}
	s.t.Logf("bank: %d pages, %d times money, for %d bookings and %d refunds", len(bank), taken, bought, back)
	if bought == 0 || back == 0 {
		s.t.Errorf("%d bookings and %d refunds are too few to tell", bought, back)
	}
}

// keptBank is what the sandbox of a node that has ended wrote down.
func (s *stand) keptBank() []sandbox.Payment {
	s.t.Helper()
	bank, err := sandbox.NewServer(sandbox.ServerConfig{Secret: s.secret, File: s.path("sandbox.json")})
	if err != nil {
		s.t.Fatal(err)
	}
	defer bank.Close()
	return bank.Payments()
}
