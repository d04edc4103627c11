-- extend: a live hold lasts for another hold_ttl from now, but never beyond max_hold_age. The same key extends once.
WITH clk AS MATERIALIZED (SELECT coalesce(@now::timestamptz, now()) AS t),
b AS MATERIALIZED (
  SELECT b.booking_id, b.event_id, b.items, b.expires_at AS was, (@key::text IS NOT NULL AND @key::text = ANY (b.extend_keys)) IS TRUE AS done,
         least((SELECT t FROM clk) + e.hold_ttl, b.held_since + e.max_hold_age) AS most, b.held_since + e.max_hold_age AS top
    FROM bk.booking b JOIN bk.event e USING (event_id)
   WHERE b.booking_id = @hold::uuid AND b.customer = ANY (@customers::text[]) AND b.status = 'HOLD' AND b.expires_at > (SELECT t FROM clk)
     FOR NO KEY UPDATE OF b),
todo AS MATERIALIZED (SELECT * FROM b WHERE NOT done AND most > was + interval '1 s'), -- a moment more is not worth a write
sl AS MATERIALIZED (
  SELECT s.event_id, s.seat_code FROM bk.seat s JOIN todo b ON s.event_id = b.event_id AND s.seat_code = ANY (b.items)
   WHERE s.booking_id = b.booking_id AND s.status = 'HELD' ORDER BY s.event_id, s.seat_code FOR NO KEY UPDATE OF s),
full_ AS MATERIALIZED (SELECT b.* FROM todo b WHERE (SELECT count(*) FROM sl) = cardinality(b.items)),
us AS (UPDATE bk.seat s SET hold_expires_at = b.most FROM sl, full_ b WHERE s.event_id = sl.event_id AND s.seat_code = sl.seat_code RETURNING 1),
ub AS (
  UPDATE bk.booking x SET expires_at = b.most, extend_keys = CASE WHEN @key::text IS NULL THEN x.extend_keys ELSE (x.extend_keys || @key::text)[greatest(1, cardinality(x.extend_keys) - 6):] END
    FROM full_ b WHERE x.booking_id = b.booking_id RETURNING x.expires_at),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'inventory-changed', 'event', f.event_id::text, 'SeatsHeld',
         jsonb_build_object('event_id', f.event_id, 'holds', jsonb_build_array(
           jsonb_build_object('hold_id', f.booking_id, 'seats', f.items, 'expires_at', f.most, 'customer', x.customer)))
    FROM full_ f JOIN bk.booking x USING (booking_id))
SELECT CASE WHEN EXISTS (SELECT FROM ub) THEN 'extended' WHEN (SELECT done FROM b) THEN 'replay'
            WHEN EXISTS (SELECT FROM full_) THEN 'extended' WHEN EXISTS (SELECT FROM b WHERE top <= was) THEN 'limit'
            WHEN EXISTS (SELECT FROM b WHERE most <= was + interval '1 s') THEN 'replay' ELSE 'hold_gone' END AS outcome,
       coalesce((SELECT event_id FROM b), 0) AS event_id,
       (SELECT items FROM b) AS seats,
       bk.must((SELECT count(*) FROM us) = coalesce((SELECT cardinality(items) FROM full_), 0), 'extend') AS ok
