-- expire: mark holds whose time is up, for display and for whoever waits to hear of it. No decision depends on it.
WITH
clk AS MATERIALIZED (SELECT coalesce(@now::timestamptz, now()) AS t),
due AS MATERIALIZED (
  SELECT booking_id, event_id, items, customer, room, session FROM bk.booking
   WHERE status = 'HOLD' AND kind = 'SEATS' AND expires_at <= coalesce(@now::timestamptz, now())
   ORDER BY expires_at LIMIT @most::int
     FOR NO KEY UPDATE SKIP LOCKED),
w AS MATERIALIZED (                                             -- by both columns of the key, or the plan reads whole events
  SELECT d.booking_id, d.event_id, u.c FROM due d CROSS JOIN LATERAL unnest(d.items) u(c)),
sl AS MATERIALIZED (
  SELECT s.event_id, s.seat_code, w.booking_id FROM w JOIN bk.seat s ON s.event_id = w.event_id AND s.seat_code = w.c COLLATE "C"
   WHERE s.booking_id = w.booking_id AND s.status = 'HELD'
   ORDER BY s.event_id, s.seat_code FOR NO KEY UPDATE OF s SKIP LOCKED),
ready AS MATERIALIZED (                                         -- a booking with a seat that somebody has locked waits for the next round
  SELECT d.* FROM due d
   WHERE (SELECT count(*) FROM sl WHERE sl.booking_id = d.booking_id)
       = (SELECT count(*) FROM w JOIN bk.seat s ON s.event_id = w.event_id AND s.seat_code = w.c COLLATE "C"
           WHERE w.booking_id = d.booking_id AND s.booking_id = d.booking_id AND s.status = 'HELD')),
us AS (
  UPDATE bk.seat s SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL
    FROM sl WHERE sl.booking_id IN (SELECT booking_id FROM ready) AND s.event_id = sl.event_id AND s.seat_code = sl.seat_code RETURNING s.event_id, s.seat_code, sl.booking_id),
ub AS (
  UPDATE bk.booking x SET status = 'EXPIRED', resolved_at = (SELECT t FROM clk)
    FROM ready r WHERE x.booking_id = r.booking_id RETURNING x.booking_id),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'inventory-changed', 'event', event_id::text, 'SeatsReleased',
         jsonb_build_object('event_id', event_id, 'hold_id', booking_id, 'seats', jsonb_agg(seat_code), 'reason', 'expired') FROM us GROUP BY event_id, booking_id
  UNION ALL
  SELECT 'booking-events', 'booking', d.booking_id::text, 'BookingExpired',
         jsonb_strip_nulls(jsonb_build_object('booking_id', d.booking_id, 'event_id', d.event_id, 'seats', d.items, 'customer', d.customer,
                                              'room', d.room, 'session', d.session)) FROM due d JOIN ub USING (booking_id))
SELECT (SELECT count(*) FROM ub) AS expired, (SELECT count(*) FROM us) AS released
