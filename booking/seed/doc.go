// Package seed puts halls and events on sale: it reads a YAML file and makes the database say the same.
//
//	halls:
//	  - id: 1
//	    name: Cinema 1
//	    sections:                         # an entry is a block of equal rows; several may share a name
//	      - {name: Stalls, rows: A..C, seats: 20, tier: premium}
//	      - {name: Stalls, rows: [D, E, G..M], seats: 24, tier: standard, accessible: [M1, M2]}
//	      - {name: Box, rows: 1..4, seats: 6, tier: box, code: "{section}-{row}-{seat}", rank: 50}
//	events:
//	  - id: 42
//	    hall: 1
//	    name: The Late Show
//	    starts_at: 2026-12-24T19:30:00+07:00
//	    zone: Asia/Ho_Chi_Minh            # for display; default UTC
//	    currency: VND
//	    prices: {premium: 150000, standard: 90000, box: {standard: 300000, child: 200000}}   # minor units
//	    blocked: [A1, A2..A4, {section: Box, rows: 1}]
//	    channels: {1: [B1..B20]}          # seats of a sales channel other than 0, the public one
//
// What an event may say besides, with the default: kind (showtime, concert; showtime), status (ON_SALE), opens_at (always
// was), closes_at (starts_at), hold (10m), checkout (four fifths of hold), max_hold_age (twice hold), max_seats (8),
// customer_cap (0: none), holds_per_minute (5; 0: no limit), redis_gate (false), rooms (none: no waiting room is asked for),
// late_policy (refund).
//
// [Plan.Apply] may be called as often as one likes, while seats are being sold: it adds what is missing, changes what
// differs, and leaves every seat alone that is held or sold. Halls and events that the file does not name stay as they are.
// Where it changed an event's seats it says so by an event SeatsChanged{event_id} of the topic inventory-changed.
package seed
