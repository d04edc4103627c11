// Package booking is the booking core: it holds, sells and refunds seats in Postgres, for organizers who have no ticketing
// site of their own, and never sells one twice.
//
// A hold, an order and a booking are one row with one life:
//
//	HOLD -> CONFIRMED -> CANCELLED     paid in time; later given back
//	HOLD -> EXPIRED -> FAILED          not paid in time; paid too late (the money becomes a refund)
//	HOLD -> CANCELLED                  given up by its customer, or swapped for another hold
//
// # Invariants
//
//   - Every grant is a commit in Postgres. Redis, the broker, the workers and the waiting room may be away: the core is as
//     exact without them.
//   - A hold is live while its expiry lies in the future by the database's clock, and dead from that instant on, whether or
//     not anybody has cleaned it up.
//   - Locks are taken in one order: payment, booking, customer (advisory), seats by (event, code). See bk.hold_seats.
//   - Nothing calls a payment provider inside a transaction. The row that a call is about exists before it.
//   - For each captured payment there is in the end exactly one of a confirmed booking and a refund.
//   - Who loses a seat writes nothing.
//
// The package is told who the customer is ([Admission]); it knows nothing of tokens or lines, and imports no other package
// of ours but those under it and internal ones.
package booking
