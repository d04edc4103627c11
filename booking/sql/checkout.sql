-- checkout: write a payment down before the provider hears of it, so that no callback can overtake it. Its id is our reference
-- at the provider. Outcome: created, replay, key_reuse, hold_gone, too_late,
-- too_many (five attempts are open, or twenty were made).
WITH clk AS MATERIALIZED (SELECT coalesce(@now::timestamptz, now()) AS t),
h AS MATERIALIZED (
  SELECT b.booking_id, b.event_id, b.amount_minor, e.currency, e.name,
         least(clk.t + e.checkout_ttl, b.expires_at - (e.hold_ttl - e.checkout_ttl)) AS pay_by, e.checkout_ttl
    FROM clk, bk.booking b JOIN bk.event e USING (event_id)
   WHERE b.booking_id = @hold::uuid AND b.customer = @customer::text AND b.status = 'HOLD' AND b.expires_at > clk.t
     FOR NO KEY UPDATE OF b),
ins AS (
  INSERT INTO bk.payment (payment_id, booking_id, provider, provider_ref, idempotency_key, request_hash, amount_minor, currency,
                          created_at, checkout_expires_at, next_check_at)
  SELECT @payment::uuid, h.booking_id, CASE WHEN h.amount_minor = 0 THEN 'none' ELSE @provider::text END, @payment::uuid::text, @key::text, @hash::bytea, h.amount_minor, h.currency,
         clk.t, h.pay_by, clk.t + greatest(@reconcile::interval, h.checkout_ttl + interval '1 min')
    FROM h, clk WHERE h.pay_by >= clk.t + interval '30 s'
     AND (SELECT count(*) FROM bk.payment o WHERE o.booking_id = h.booking_id) < 20
     AND (SELECT count(*) FROM bk.payment o WHERE o.booking_id = h.booking_id AND o.status = 'PENDING') < 5
  ON CONFLICT (booking_id, idempotency_key) DO NOTHING
  RETURNING payment_id, checkout_expires_at, amount_minor, currency, provider)
SELECT CASE WHEN EXISTS (SELECT FROM ins) THEN 'created'
            WHEN p.payment_id IS NOT NULL AND p.request_hash IS DISTINCT FROM @hash::bytea THEN 'key_reuse'
            WHEN p.payment_id IS NOT NULL THEN 'replay'
            WHEN NOT EXISTS (SELECT FROM h) THEN 'hold_gone'
            WHEN (SELECT pay_by < clk.t + interval '30 s' FROM h) THEN 'too_late'
            ELSE 'too_many' END AS outcome,
       coalesce(i.payment_id, p.payment_id) AS payment_id,
       coalesce(i.checkout_expires_at, p.checkout_expires_at) AS pay_by,
       coalesce(i.amount_minor, p.amount_minor, 0) AS amount,
       coalesce(i.currency, p.currency, '')::text AS currency,
       coalesce(i.provider, p.provider, '') AS provider,
       coalesce(p.checkout_url, '') AS url,
       coalesce(p.status, 'PENDING') AS status,
       coalesce((SELECT name FROM h), '') AS title,
       clk.t AS now
  FROM clk
  LEFT JOIN ins i ON true
  LEFT JOIN LATERAL (SELECT p.* FROM bk.payment p JOIN bk.booking b USING (booking_id)
                      WHERE p.booking_id = @hold::uuid AND b.customer = @customer::text AND p.idempotency_key = @key::text) p ON true
