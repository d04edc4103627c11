-- audit: every rule that must always hold, over the events that begin after @since::timestamptz; any row is an alarm.
WITH e AS MATERIALIZED (SELECT event_id FROM bk.event WHERE starts_at >= @since::timestamptz),
b AS MATERIALIZED (SELECT b.* FROM bk.booking b JOIN e USING (event_id) WHERE b.kind = 'SEATS'),
clk AS (SELECT coalesce(@now::timestamptz, now()) AS t)
SELECT 'confirmed booking without all its seats' AS rule, b.booking_id::text AS what FROM b
 WHERE b.status = 'CONFIRMED'
   AND (SELECT count(*) FROM bk.seat s WHERE s.event_id = b.event_id AND s.seat_code = ANY (b.items) AND s.booking_id = b.booking_id AND s.status = 'SOLD') <> b.quantity
UNION ALL
SELECT 'sold seat without a confirmed booking', s.event_id || '/' || s.seat_code FROM bk.seat s JOIN e USING (event_id) LEFT JOIN bk.booking b USING (booking_id)
 WHERE s.status = 'SOLD' AND (b.status IS DISTINCT FROM 'CONFIRMED' OR s.seat_code <> ALL (b.items) OR b.event_id <> s.event_id)
UNION ALL
SELECT 'seat held by a closed booking', s.event_id || '/' || s.seat_code FROM bk.seat s JOIN e USING (event_id) LEFT JOIN bk.booking b USING (booking_id)
 WHERE s.status = 'HELD' AND (b.status IS DISTINCT FROM 'HOLD' OR s.seat_code <> ALL (b.items) OR b.event_id <> s.event_id)
UNION ALL
SELECT 'seat and hold end at different times', s.event_id || '/' || s.seat_code FROM bk.seat s JOIN e USING (event_id) JOIN bk.booking b USING (booking_id)
 WHERE s.status = 'HELD' AND b.status = 'HOLD' AND s.hold_expires_at <> b.expires_at
UNION ALL
SELECT 'live hold with missing seats', b.booking_id::text FROM b, clk
 WHERE b.status = 'HOLD' AND b.expires_at > clk.t
   AND (SELECT count(*) FROM bk.seat s WHERE s.event_id = b.event_id AND s.seat_code = ANY (b.items) AND s.booking_id = b.booking_id AND s.status = 'HELD') <> b.quantity
UNION ALL
SELECT 'hold long dead', b.booking_id::text FROM b, clk WHERE b.status = 'HOLD' AND b.expires_at < clk.t - interval '60 s'
UNION ALL
SELECT 'tickets do not match the booking', b.booking_id::text FROM b
 WHERE (SELECT count(*) FROM bk.ticket t WHERE t.booking_id = b.booking_id AND t.status <> 'VOID') <> CASE WHEN b.status = 'CONFIRMED' THEN b.quantity ELSE 0 END
UNION ALL
SELECT 'confirmed booking without exactly one counted payment', b.booking_id::text FROM b
 WHERE b.status = 'CONFIRMED' AND (SELECT count(*) FROM bk.payment p WHERE p.booking_id = b.booking_id AND p.status = 'SUCCEEDED') <> 1
UNION ALL
SELECT 'counted payment of another amount', p.payment_id::text FROM bk.payment p JOIN b USING (booking_id)
 WHERE p.status = 'SUCCEEDED' AND (p.amount_minor <> b.amount_minor OR p.captured_minor IS DISTINCT FROM p.amount_minor)
UNION ALL
SELECT 'money taken, booking not confirmed, no refund', p.payment_id::text FROM bk.payment p JOIN b USING (booking_id)
 WHERE (p.status = 'SUCCEEDED' AND b.status <> 'CONFIRMED')
    OR (p.status IN ('REFUND_DUE','REFUNDED') AND p.captured_minor > 0 AND NOT EXISTS (SELECT FROM bk.refund r WHERE r.payment_id = p.payment_id))
UNION ALL
SELECT 'refunds do not add up to the money taken', p.payment_id::text FROM bk.payment p JOIN b USING (booking_id)
 WHERE coalesce((SELECT sum(r.amount_minor) FROM bk.refund r WHERE r.payment_id = p.payment_id), 0)
       <> CASE WHEN p.status IN ('REFUND_DUE','REFUNDED') THEN coalesce(p.captured_minor, p.amount_minor) ELSE 0 END
UNION ALL
SELECT 'payment pending past reconciliation', p.payment_id::text FROM bk.payment p JOIN b USING (booking_id), clk
 WHERE p.status = 'PENDING' AND p.created_at < clk.t - @pending::interval
UNION ALL
SELECT 'refund not done', r.refund_id::text FROM bk.refund r JOIN bk.payment p USING (payment_id) JOIN b USING (booking_id), clk
 WHERE r.status <> 'DONE' AND (r.status = 'FAILED' OR r.created_at < clk.t - @refunding::interval)
ORDER BY 1, 2
LIMIT 1000
