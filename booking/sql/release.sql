-- release: a customer gives up a hold. An expired one that nobody cleaned up yet is given up just so.
WITH
b AS MATERIALIZED (
  SELECT booking_id, event_id, items, customer, room, session FROM bk.booking
   WHERE booking_id = @hold::uuid AND customer = ANY (@customers::text[]) AND kind = 'SEATS' AND status = 'HOLD'
     FOR NO KEY UPDATE),
sl AS MATERIALIZED (
  SELECT s.event_id, s.seat_code FROM bk.seat s JOIN b ON s.event_id = b.event_id AND s.seat_code = ANY (b.items)
   WHERE s.booking_id = b.booking_id AND s.status = 'HELD'
   ORDER BY s.event_id, s.seat_code FOR NO KEY UPDATE OF s),
us AS (
  UPDATE bk.seat s SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL
    FROM sl WHERE s.event_id = sl.event_id AND s.seat_code = sl.seat_code RETURNING s.seat_code),
ub AS (
  UPDATE bk.booking x SET status = 'CANCELLED', resolved_at = coalesce(@now::timestamptz, now()) FROM b WHERE x.booking_id = b.booking_id RETURNING 1),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'inventory-changed', 'event', b.event_id::text, 'SeatsReleased',
         jsonb_build_object('event_id', b.event_id, 'hold_id', b.booking_id, 'seats', (SELECT jsonb_agg(seat_code) FROM us), 'reason', 'cancelled') FROM b
   WHERE EXISTS (SELECT FROM us)
  UNION ALL
  SELECT 'booking-events', 'booking', b.booking_id::text, 'BookingCancelled',
         jsonb_strip_nulls(jsonb_build_object('booking_id', b.booking_id, 'event_id', b.event_id, 'seats', b.items, 'customer', b.customer,
                                              'room', b.room, 'session', b.session, 'was', 'HOLD')) FROM b)
SELECT (SELECT count(*) FROM ub) AS cancelled,
       coalesce((SELECT event_id FROM b), 0) AS event_id,
       (SELECT array_agg(seat_code) FROM us) AS seats,
       coalesce((SELECT status FROM bk.booking WHERE booking_id = @hold::uuid AND customer = ANY (@customers::text[])), '') AS was
