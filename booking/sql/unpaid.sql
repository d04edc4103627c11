-- unpaid: the provider says that an attempt to pay failed (DECLINED) or its page ended (EXPIRED). The hold stays.
WITH seen AS (
  INSERT INTO bk.inbox (provider, event_id, provider_ref)
  SELECT @provider::text, @event::text, @ref::text
   WHERE EXISTS (SELECT FROM bk.payment WHERE provider = @provider::text AND provider_ref = @ref::text)
  ON CONFLICT (provider, event_id) DO NOTHING RETURNING 1),
up AS (
  UPDATE bk.payment SET status = @status::text, settled_at = coalesce(@now::timestamptz, now())
   WHERE provider = @provider::text AND provider_ref = @ref::text AND status = 'PENDING' AND EXISTS (SELECT FROM seen) RETURNING 1)
SELECT CASE WHEN EXISTS (SELECT FROM up) THEN 'changed'
            WHEN EXISTS (SELECT FROM bk.payment WHERE provider = @provider::text AND provider_ref = @ref::text) THEN 'duplicate'
            ELSE 'unknown_payment' END AS outcome,
       (SELECT booking_id FROM bk.payment WHERE provider = @provider::text AND provider_ref = @ref::text) AS booking_id
