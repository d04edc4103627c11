-- hold: the short way for one plain hold, which is neither a swap nor under a customer's cap: one statement, one plan. It gives
-- no row for whatever it doesn't hold; bk.hold_seats then says why. The same rules and the same order of locks.
WITH clk AS MATERIALIZED (SELECT coalesce($12::timestamptz, now()) AS t),
e AS MATERIALIZED (
  SELECT t + hold_ttl AS until FROM bk.event, clk
   WHERE event_id = $2::bigint AND status = 'ON_SALE' AND t >= sales_open_at AND t < sales_close_at
     AND customer_cap IS NULL AND max_seats >= cardinality($3::text[])),
locked AS MATERIALIZED (                              -- nothing is locked for who wants several seats and can't have them all
  SELECT s.seat_code FROM bk.seat s, clk, e
   WHERE s.event_id = $2::bigint AND s.seat_code = ANY ($3::text[])
     AND bk.free(s.status, s.hold_expires_at, s.channel, $11::bigint, t)
     AND (cardinality($3::text[]) = 1
          OR (SELECT count(*) FROM bk.seat l, clk WHERE l.event_id = $2::bigint AND l.seat_code = ANY ($3::text[])
                 AND bk.free(l.status, l.hold_expires_at, l.channel, $11::bigint, t)) = cardinality($3::text[]))
   ORDER BY s.seat_code FOR NO KEY UPDATE OF s),
made AS (
  INSERT INTO bk.booking (booking_id, kind, customer, room, session, status, event_id, items, ticket_types, quantity, amount_minor,
                          idempotency_key, request_hash, held_since, created_at, expires_at)
  SELECT $1::uuid, 'SEATS', $5::text, $6::text, $7::text, 'HOLD', $2::bigint, $3::text[], $4::text[], cardinality($3::text[]), $8::bigint,
         $9::text, $10::bytea, t, t, until
    FROM clk, e WHERE (SELECT count(*) FROM locked) = cardinality($3::text[])
  ON CONFLICT (customer, idempotency_key) DO NOTHING
  RETURNING created_at, expires_at),
us AS (
  UPDATE bk.seat s SET status = 'HELD', booking_id = $1::uuid, hold_expires_at = m.expires_at
    FROM made m WHERE s.event_id = $2::bigint AND s.seat_code = ANY ($3::text[])
     AND bk.free(s.status, s.hold_expires_at, s.channel, $11::bigint, m.created_at) RETURNING 1),
ob AS (
  INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
  SELECT 'inventory-changed', 'event', $2::bigint::text, 'SeatsHeld',
         jsonb_build_object('event_id', $2::bigint, 'holds', jsonb_build_array(
           jsonb_build_object('hold_id', $1::uuid, 'seats', $3::text[], 'expires_at', m.expires_at, 'customer', $5::text))) FROM made m)
SELECT m.expires_at, m.created_at,
       CASE WHEN (SELECT count(*) FROM us) <> cardinality($3::text[]) THEN bk.must(false, 'a hold is all or nothing') END AS ok
  FROM made m
