-- cancel: a customer gives a confirmed booking back. Seats, tickets and the refund change in the one commit.
WITH
clk AS MATERIALIZED (SELECT coalesce(@now::timestamptz, now()) AS t),
p AS MATERIALIZED (                                             -- payment before booking, always
  SELECT p.payment_id, p.amount_minor, p.captured_minor FROM bk.payment p JOIN bk.booking b USING (booking_id)
   WHERE p.booking_id = @booking::uuid AND p.status = 'SUCCEEDED' AND b.customer = ANY (@customers::text[])
     FOR NO KEY UPDATE OF p),
b AS MATERIALIZED (
  SELECT b.booking_id, b.event_id, b.items, b.customer, b.room, b.session FROM bk.booking b JOIN bk.event e USING (event_id)
   WHERE b.booking_id = @booking::uuid AND b.customer = ANY (@customers::text[]) AND b.kind = 'SEATS' AND b.status = 'CONFIRMED'
     AND e.starts_at > (SELECT t FROM clk) AND (SELECT count(*) FROM p) >= 0
     AND NOT EXISTS (SELECT FROM bk.ticket t WHERE t.booking_id = b.booking_id AND t.status = 'USED')
     FOR NO KEY UPDATE OF b),
sl AS MATERIALIZED (
  SELECT s.event_id, s.seat_code FROM bk.seat s JOIN b ON s.event_id = b.event_id AND s.seat_code = ANY (b.items)
   WHERE s.booking_id = b.booking_id AND s.status = 'SOLD'
   ORDER BY s.event_id, s.seat_code FOR NO KEY UPDATE OF s),
us AS (
  UPDATE bk.seat s SET status = 'AVAILABLE', booking_id = NULL
    FROM sl WHERE s.event_id = sl.event_id AND s.seat_code = sl.seat_code RETURNING s.seat_code),
tv AS (UPDATE bk.ticket t SET status = 'VOID' FROM b WHERE t.booking_id = b.booking_id AND t.status = 'VALID' RETURNING 1),
up AS (
  UPDATE bk.payment x SET status = CASE WHEN p.amount_minor > 0 THEN 'REFUND_DUE' ELSE 'REFUNDED' END
    FROM p, b WHERE x.payment_id = p.payment_id RETURNING x.payment_id),
rf AS (
  INSERT INTO bk.refund (payment_id, reason, amount_minor)
  SELECT p.payment_id, 'customer_cancel', coalesce(p.captured_minor, p.amount_minor) FROM p JOIN up USING (payment_id) WHERE p.amount_minor > 0
  ON CONFLICT (payment_id, reason) DO NOTHING RETURNING refund_id, payment_id, amount_minor),
ub AS (UPDATE bk.booking x SET status = 'CANCELLED', resolved_at = (SELECT t FROM clk) FROM b WHERE x.booking_id = b.booking_id RETURNING 1),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'inventory-changed', 'event', b.event_id::text, 'SeatsReleased',
         jsonb_build_object('event_id', b.event_id, 'hold_id', b.booking_id, 'seats', b.items, 'reason', 'refunded') FROM b
  UNION ALL
  SELECT 'booking-events', 'booking', b.booking_id::text, 'BookingCancelled',
         jsonb_strip_nulls(jsonb_build_object('booking_id', b.booking_id, 'event_id', b.event_id, 'seats', b.items, 'customer', b.customer,
                                              'room', b.room, 'session', b.session, 'was', 'CONFIRMED')) FROM b
  UNION ALL
  SELECT 'booking-events', 'booking', b.booking_id::text, 'RefundRequested',
         jsonb_build_object('booking_id', b.booking_id, 'payment_id', rf.payment_id, 'refund_id', rf.refund_id, 'amount', rf.amount_minor) FROM b, rf)
SELECT (SELECT count(*) FROM ub) AS cancelled,
       coalesce((SELECT event_id FROM b), 0) AS event_id,
       (SELECT items FROM b) AS seats,
       coalesce((SELECT status FROM bk.booking WHERE booking_id = @booking::uuid AND customer = ANY (@customers::text[])), '') AS was,
       bk.must((SELECT count(*) FROM us) = coalesce((SELECT cardinality(items) FROM b), 0), 'cancel seats') AS ok
