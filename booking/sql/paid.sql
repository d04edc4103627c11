-- paid: what a provider's word that money was taken does, for the first time and for every later one. Confirm, late money,
-- wrong amount, second payment, duplicate and unknown payment in one statement. Locks: payment, booking, seats.
WITH
clk AS MATERIALIZED (SELECT coalesce(@now::timestamptz, now()) AS t),
seen AS (
  INSERT INTO bk.inbox (provider, event_id, provider_ref)
  SELECT @provider::text, @event::text, @ref::text
   WHERE EXISTS (SELECT FROM bk.payment WHERE provider = @provider::text AND provider_ref = @ref::text)
  ON CONFLICT (provider, event_id) DO NOTHING RETURNING 1),
p AS MATERIALIZED (
  SELECT payment_id, booking_id, amount_minor, currency, (amount_minor = @amount::bigint AND currency = @currency::text) AS exact
    FROM bk.payment
   WHERE provider = @provider::text AND provider_ref = @ref::text
     AND status IN ('PENDING','DECLINED','EXPIRED') AND EXISTS (SELECT FROM seen)
     FOR NO KEY UPDATE),
b AS MATERIALIZED (
  SELECT b.booking_id, b.kind, b.customer, b.room, b.session, b.status, b.event_id, b.items, b.quantity, b.expires_at, p.payment_id, p.exact,
         (b.status = 'HOLD' AND b.expires_at > (SELECT t FROM clk) AND p.exact) AS live,
         (b.status = 'EXPIRED' OR (b.status = 'HOLD' AND b.expires_at <= (SELECT t FROM clk))) AS dead
    FROM bk.booking b JOIN p ON p.booking_id = b.booking_id
     FOR NO KEY UPDATE OF b),
sl AS MATERIALIZED (
  SELECT s.event_id, s.seat_code FROM bk.seat s JOIN b ON (b.live OR b.dead) AND s.event_id = b.event_id AND s.seat_code = ANY (b.items)
   WHERE s.booking_id = b.booking_id AND s.status = 'HELD'
   ORDER BY s.event_id, s.seat_code FOR NO KEY UPDATE OF s),
won AS MATERIALIZED (
  SELECT b.* FROM b WHERE b.live AND (SELECT count(*) FROM sl) = b.quantity),
us AS (
  UPDATE bk.seat s SET status = CASE WHEN EXISTS (SELECT FROM won) THEN 'SOLD' ELSE 'AVAILABLE' END,
         booking_id = CASE WHEN EXISTS (SELECT FROM won) THEN s.booking_id END, hold_expires_at = NULL
    FROM sl WHERE s.event_id = sl.event_id AND s.seat_code = sl.seat_code RETURNING s.seat_code),
ub AS (
  UPDATE bk.booking x SET status = CASE WHEN EXISTS (SELECT FROM won) THEN 'CONFIRMED' ELSE 'FAILED' END, resolved_at = (SELECT t FROM clk)
    FROM b WHERE x.booking_id = b.booking_id AND (b.live OR b.dead) RETURNING x.status),
up AS (
  UPDATE bk.payment x SET status = CASE WHEN EXISTS (SELECT FROM won) THEN 'SUCCEEDED' WHEN @amount::bigint = 0 THEN 'EXPIRED' ELSE 'REFUND_DUE' END, settled_at = (SELECT t FROM clk),
         captured_minor = @amount::bigint, captured_currency = @currency::text, charge_ref = coalesce(nullif(@charge::text, ''), x.charge_ref)
    FROM p WHERE x.payment_id = p.payment_id RETURNING x.status),
rf AS (
  INSERT INTO bk.refund (payment_id, reason, amount_minor)
  SELECT p.payment_id, CASE WHEN b.status = 'CONFIRMED' THEN 'second_payment' ELSE 'late_or_mismatch' END, @amount::bigint
    FROM p, b WHERE NOT EXISTS (SELECT FROM won) AND @amount::bigint > 0
  ON CONFLICT (payment_id, reason) DO NOTHING RETURNING refund_id),
tk AS (
  INSERT INTO bk.ticket (booking_id, event_id, seat_code)
  SELECT w.booking_id, w.event_id, u.c FROM won w CROSS JOIN LATERAL unnest(w.items) u(c) RETURNING ticket_id, seat_code),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'booking-events', 'booking', b.booking_id::text, CASE ub.status WHEN 'CONFIRMED' THEN 'BookingConfirmed' ELSE 'BookingFailed' END,
         jsonb_strip_nulls(jsonb_build_object('booking_id', b.booking_id, 'payment_id', b.payment_id, 'event_id', b.event_id, 'seats', b.items,
                                              'customer', b.customer, 'room', b.room, 'session', b.session)) FROM b, ub
  UNION ALL
  SELECT 'booking-events', 'booking', b.booking_id::text, 'RefundRequested',
         jsonb_build_object('booking_id', b.booking_id, 'payment_id', b.payment_id, 'refund_id', rf.refund_id, 'amount', @amount::bigint) FROM b, rf
  UNION ALL
  SELECT 'ticket-issued', 'booking', w.booking_id::text, 'TicketsIssued',
         jsonb_build_object('booking_id', w.booking_id, 'event_id', w.event_id, 'customer', w.customer,
                            'tickets', (SELECT jsonb_agg(jsonb_build_object('ticket_id', ticket_id, 'seat', seat_code) ORDER BY seat_code) FROM tk)) FROM won w
  UNION ALL
  SELECT 'inventory-changed', 'event', b.event_id::text, CASE WHEN EXISTS (SELECT FROM won) THEN 'SeatsSold' ELSE 'SeatsReleased' END,
         jsonb_build_object('event_id', b.event_id, 'hold_id', b.booking_id, 'seats', (SELECT jsonb_agg(seat_code) FROM us), 'customer', b.customer)
    FROM b WHERE EXISTS (SELECT FROM us))
SELECT CASE WHEN EXISTS (SELECT FROM won) THEN 'confirmed'
            WHEN EXISTS (SELECT FROM p) THEN CASE WHEN (SELECT exact FROM p) THEN 'late_refund' ELSE 'amount_mismatch' END
            WHEN EXISTS (SELECT FROM bk.payment WHERE provider = @provider::text AND provider_ref = @ref::text) THEN 'duplicate'
            ELSE 'unknown_payment' END AS outcome,
       (SELECT booking_id FROM bk.payment WHERE provider = @provider::text AND provider_ref = @ref::text) AS booking_id,
       (SELECT event_id FROM b) AS event_id,
       (SELECT array_agg(seat_code) FROM us) AS seats,
       (SELECT extract(epoch FROM (SELECT t FROM clk) - b.expires_at)::float8 FROM b WHERE b.dead) AS late_seconds,
       bk.must((SELECT count(*) FROM us) = (SELECT count(*) FROM sl), 'confirm seats') AS ok,
       CASE WHEN EXISTS (SELECT FROM p) AND NOT EXISTS (SELECT FROM b) -- the payment was moved to a younger booking while we waited
            THEN bk.again('the booking of the payment') END AS again
