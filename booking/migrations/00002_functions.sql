-- +goose Up
-- Decisions that must be one round trip. p_now is the clock of tests; NULL is the database's own.

-- +goose StatementBegin
CREATE FUNCTION bk.must(ok boolean, what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF ok IS NOT TRUE THEN
    RAISE EXCEPTION 'invariant broken: %', what USING ERRCODE = 'P0BK1';
  END IF;
  RETURN true;
END $$;
-- +goose StatementEnd

-- again undoes a statement whose picture of the tables turned out too old: the caller runs it once more.
-- +goose StatementBegin
CREATE FUNCTION bk.again(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'changed meanwhile: %', what USING ERRCODE = 'serialization_failure';
END $$;
-- +goose StatementEnd

-- held_of is how many seats of an event a customer has, bought or held; skip is a hold that is about to go. A hold whose time
-- ran out this moment still counts while a payment of it may be about to count.
-- +goose StatementBegin
CREATE FUNCTION bk.held_of(p_customer text, p_event bigint, p_skip uuid, t timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(b.quantity), 0) FROM bk.booking b
   WHERE b.customer = p_customer AND b.event_id = p_event AND b.booking_id IS DISTINCT FROM p_skip
     AND (b.status = 'CONFIRMED' OR (b.status = 'HOLD' AND (b.expires_at > t OR (b.expires_at > t - interval '10 s'
          AND EXISTS (SELECT FROM bk.payment p WHERE p.booking_id = b.booking_id AND p.status = 'PENDING')))))
$$;
-- +goose StatementEnd

-- A booking resolves at most once. The rule of a two-phase transfer.
-- +goose StatementBegin
CREATE FUNCTION bk.booking_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND NOT (OLD.status = 'HOLD'
     OR (OLD.status = 'CONFIRMED' AND NEW.status = 'CANCELLED')
     OR (OLD.status = 'EXPIRED'   AND NEW.status = 'FAILED')) THEN
    RAISE EXCEPTION 'booking % cannot go % -> %', OLD.booking_id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER booking_guard BEFORE UPDATE OF status ON bk.booking FOR EACH ROW EXECUTE FUNCTION bk.booking_guard();

-- Seats are partitioned by ranges of p_width event ids. This makes the partitions from the first event to p_ahead beyond the
-- last one, and returns how many empty ones stand ready. A range that already has rows in bk.seat_rest is left there. It waits
-- for no lock longer than a moment, since everybody would wait behind it: a caller that gets 55P03 tries again later.
-- +goose StatementBegin
CREATE FUNCTION bk.make_partitions(p_width bigint DEFAULT 1000000, p_ahead int DEFAULT 2) RETURNS int LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
DECLARE last bigint := (SELECT coalesce(max(event_id), 0) FROM bk.event WHERE event_id < 1000000000000) / p_width;
        n bigint; name text;
BEGIN
  PERFORM pg_advisory_xact_lock(4711, 100);
  FOR n IN SELECT DISTINCT g FROM (
      SELECT event_id / p_width AS g FROM bk.event WHERE event_id < 1000000000000
      UNION ALL SELECT generate_series(last, last + p_ahead)) x ORDER BY 1 LOOP
    name := 'seat_' || n;
    IF to_regclass('bk.' || name) IS NULL
       AND NOT EXISTS (SELECT FROM bk.seat_rest WHERE event_id >= n * p_width AND event_id < (n + 1) * p_width) THEN
      -- attached, not made as a partition: that would lock the parent, too
      EXECUTE format('CREATE TABLE bk.%I (LIKE bk.seat INCLUDING ALL) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)', name);
      EXECUTE format('ALTER TABLE bk.seat ATTACH PARTITION bk.%I FOR VALUES FROM (%s) TO (%s)', name, n * p_width, (n + 1) * p_width);
    END IF;
  END LOOP;
  RETURN (SELECT count(*) FROM generate_series(last + 1, last + p_ahead) g WHERE to_regclass('bk.seat_' || g) IS NOT NULL);
END $$;
-- +goose StatementEnd
SELECT bk.make_partitions();

-- free says whether a seat may be taken at t by a customer of the channels in the mask (bit n = channel n).
-- +goose StatementBegin
CREATE FUNCTION bk.free(status text, hold_expires_at timestamptz, channel smallint, mask bigint, t timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (mask >> channel) & 1 = 1 AND (status = 'AVAILABLE' OR (status = 'HELD' AND hold_expires_at <= t))
$$;
-- +goose StatementEnd

-- hold_seats holds all the seats or none. p_seats are sorted in "C" and without duplicates; p_types stand beside them.
-- outcome: held, replay, key_reuse, no_event, not_on_sale, too_many, hold_gone, cap_reached, taken (conflicts tells which).
-- A loser takes no lock and writes nothing, unless it lost a race that was open when it looked.
-- +goose StatementBegin
CREATE FUNCTION bk.hold_seats(p_id uuid, p_event bigint, p_seats text[], p_types text[], p_customer text, p_room text, p_session text,
  p_amount bigint, p_idem text, p_hash bytea, p_mask bigint, p_replaces uuid, p_now timestamptz,
  OUT outcome text, OUT hold_id uuid, OUT expires_at timestamptz, OUT conflicts text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE t timestamptz := coalesce(p_now, now()); want int := cardinality(p_seats); n int; h bytea;
        got text[]; old_items text[] := '{}'; since timestamptz; until timestamptz;
        on_sale boolean; most int; capped int; ttl interval; most_age interval;
BEGIN
  IF p_idem IS NOT NULL THEN                                     -- 1. a plain retry: the same answer, no lock
    SELECT b.booking_id, b.expires_at, b.request_hash INTO hold_id, expires_at, h
      FROM bk.booking b WHERE b.customer = p_customer AND b.idempotency_key = p_idem;
    IF FOUND THEN outcome := CASE WHEN h IS DISTINCT FROM p_hash THEN 'key_reuse' ELSE 'replay' END; RETURN; END IF;
  END IF;
  SELECT status = 'ON_SALE' AND t >= sales_open_at AND t < sales_close_at, max_seats, customer_cap, hold_ttl, max_hold_age
    INTO on_sale, most, capped, ttl, most_age FROM bk.event WHERE event_id = p_event; -- 2. what needs no lock
  IF NOT FOUND THEN outcome := 'no_event'; RETURN; END IF;
  IF NOT on_sale THEN outcome := 'not_on_sale'; RETURN; END IF;
  IF want IS NULL OR want < 1 OR want > most THEN outcome := 'too_many'; RETURN; END IF;
  since := t;
  IF p_replaces IS NOT NULL OR capped IS NOT NULL THEN           -- 3. an unlocked look sheds sure losers: no lock, no write
    SELECT array_agg(s.seat_code) INTO got FROM bk.seat s
     WHERE s.event_id = p_event AND s.seat_code = ANY (p_seats)
       AND (bk.free(s.status, s.hold_expires_at, s.channel, p_mask, t)
            OR (s.status = 'HELD' AND s.booking_id = p_replaces));
  END IF;
  IF cardinality(got) = want THEN
    IF p_replaces IS NOT NULL THEN                               -- 4. a swap locks the old hold: booking before seats, always
      SELECT b.items, b.held_since INTO old_items, since FROM bk.booking b
       WHERE b.booking_id = p_replaces AND b.customer = p_customer AND b.event_id = p_event AND b.status = 'HOLD' AND b.expires_at > t
         FOR NO KEY UPDATE;
      IF NOT FOUND THEN
        SELECT b.booking_id, b.expires_at, b.request_hash INTO hold_id, expires_at, h -- a twin with our key may have swapped it
          FROM bk.booking b WHERE b.customer = p_customer AND b.idempotency_key = p_idem;
        outcome := CASE WHEN NOT FOUND THEN 'hold_gone' WHEN h IS DISTINCT FROM p_hash THEN 'key_reuse' ELSE 'replay' END;
        RETURN;
      END IF;
    END IF;
    IF capped IS NOT NULL THEN                                   -- 5. the customer's cap, one at a time for each (event, customer)
      PERFORM pg_advisory_xact_lock(hashtextextended(p_event || '/' || p_customer, 7));
      n := bk.held_of(p_customer, p_event, p_replaces, t);
      IF n + want > capped THEN
        SELECT b.booking_id, b.expires_at, b.request_hash INTO hold_id, expires_at, h -- a twin with our key may be what fills it
          FROM bk.booking b WHERE b.customer = p_customer AND b.idempotency_key = p_idem;
        outcome := CASE WHEN NOT FOUND THEN 'cap_reached' WHEN h IS DISTINCT FROM p_hash THEN 'key_reuse' ELSE 'replay' END;
        RETURN;
      END IF;
    END IF;
  END IF;
  IF (p_replaces IS NULL AND capped IS NULL) OR cardinality(got) = want THEN
    WITH look AS (                                               -- 6. the look again, for those without 3, and one ordered pass over
      SELECT s.seat_code FROM bk.seat s                          --    new and old seats. MATERIALIZED, or the planner pushes the
       WHERE s.event_id = p_event AND s.seat_code = ANY (p_seats) --   filter below the lock and skips rows
         AND (bk.free(s.status, s.hold_expires_at, s.channel, p_mask, t)
              OR (s.status = 'HELD' AND s.booking_id = p_replaces))),
    locked AS MATERIALIZED (
      SELECT s.* FROM bk.seat s
       WHERE s.event_id = p_event AND s.seat_code = ANY (p_seats || old_items) AND (SELECT count(*) FROM look) = want
       ORDER BY s.seat_code FOR NO KEY UPDATE)
    SELECT CASE WHEN (SELECT count(*) FROM look) = want          -- what was locked decides, never the look
                THEN (SELECT array_agg(x.seat_code ORDER BY x.seat_code) FROM locked x
                       WHERE x.seat_code = ANY (p_seats)
                         AND (bk.free(x.status, x.hold_expires_at, x.channel, p_mask, t)
                              OR (x.status = 'HELD' AND x.booking_id = p_replaces)))
                ELSE (SELECT array_agg(l.seat_code) FROM look l) END INTO got;
  END IF;
  IF cardinality(got) IS DISTINCT FROM want THEN                 -- 7. lost; but a twin with our key may have won while we waited
    IF p_idem IS NOT NULL THEN
      SELECT b.booking_id, b.expires_at, b.request_hash INTO hold_id, expires_at, h
        FROM bk.booking b WHERE b.customer = p_customer AND b.idempotency_key = p_idem;
      IF FOUND THEN outcome := CASE WHEN h IS DISTINCT FROM p_hash THEN 'key_reuse' ELSE 'replay' END; RETURN; END IF;
    END IF;
    outcome := 'taken';
    conflicts := ARRAY(SELECT u.c FROM unnest(p_seats) u(c) WHERE u.c <> ALL (coalesce(got, '{}')) ORDER BY u.c COLLATE "C");
    RETURN;
  END IF;
  until := least(t + ttl, since + most_age);
  IF until <= t THEN outcome := 'hold_gone'; RETURN; END IF;
  WITH made AS (
    INSERT INTO bk.booking (booking_id, kind, customer, room, session, status, event_id, items, ticket_types, quantity, amount_minor,
                            idempotency_key, request_hash, replaces, held_since, created_at, expires_at)
    VALUES (p_id, 'SEATS', p_customer, p_room, p_session, 'HOLD', p_event, p_seats, p_types, want, p_amount,
            p_idem, p_hash, p_replaces, since, t, until)
    ON CONFLICT (customer, idempotency_key) DO NOTHING
    RETURNING 1),
  us AS (
    UPDATE bk.seat s SET status = 'HELD', booking_id = p_id, hold_expires_at = until
      FROM made WHERE s.event_id = p_event AND s.seat_code = ANY (p_seats)
       AND (bk.free(s.status, s.hold_expires_at, s.channel, p_mask, t) OR (s.status = 'HELD' AND s.booking_id = p_replaces)) RETURNING 1),
  ob AS (
    INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
    SELECT 'inventory-changed', 'event', p_event::text, 'SeatsHeld',
           jsonb_build_object('event_id', p_event, 'holds', jsonb_build_array(
             jsonb_build_object('hold_id', p_id, 'seats', p_seats, 'expires_at', until, 'customer', p_customer))) FROM made)
  SELECT CASE WHEN EXISTS (SELECT FROM made) THEN (SELECT count(*) FROM us) END INTO n;
  IF n IS NULL THEN
    SELECT b.booking_id, b.expires_at, b.request_hash INTO hold_id, expires_at, h
      FROM bk.booking b WHERE b.customer = p_customer AND b.idempotency_key = p_idem;
    outcome := CASE WHEN h IS DISTINCT FROM p_hash THEN 'key_reuse' ELSE 'replay' END; RETURN;
  END IF;
  IF n <> want THEN PERFORM bk.must(false, 'a hold is all or nothing'); END IF;
  hold_id := p_id; expires_at := until;
  IF p_replaces IS NOT NULL THEN
    UPDATE bk.seat s SET status = 'AVAILABLE', booking_id = NULL, hold_expires_at = NULL
     WHERE s.event_id = p_event AND s.seat_code = ANY (old_items) AND s.booking_id = p_replaces AND s.status = 'HELD';
    UPDATE bk.booking b SET status = 'CANCELLED', resolved_at = t WHERE b.booking_id = p_replaces;
    INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
    SELECT 'inventory-changed', 'event', p_event::text, 'SeatsReleased',
           jsonb_build_object('event_id', p_event, 'hold_id', p_replaces, 'seats', old_items, 'reason', 'swapped')
    UNION ALL
    SELECT 'booking-events', 'booking', p_replaces::text, 'BookingCancelled',
           jsonb_build_object('booking_id', p_replaces, 'event_id', p_event, 'customer', p_customer, 'was', 'HOLD', 'replaced_by', p_id);
  END IF;
  outcome := 'held';
END $$;
-- +goose StatementEnd

-- hold_batch holds for many customers of one event at once, each all or nothing by itself. The requests of a batch share no
-- seat, no (customer, key) and, where the event has a cap, no customer: the caller sees to that. Request r is at index r of
-- the arrays; its seats are those of p_seats whose p_req is r, and once more p_items[r], an array as text, like p_types[r]
-- (NULL: all standard). It waits for no lock but those of a customer's cap.
--
-- It returns a line with all requests that were held, and one for each that surely lost (taken, with the conflicts). Whatever is
-- in no line is for hold_seats to decide: a locked seat, a key seen before, a full cap, an event that is not on sale.
-- +goose StatementBegin
CREATE FUNCTION bk.hold_batch(p_event bigint, p_ids uuid[], p_customers text[], p_rooms text[], p_sessions text[], p_amounts bigint[],
  p_keys text[], p_hashes bytea[], p_masks bigint[], p_wants int[], p_items text[], p_types text[], p_req int[], p_seats text[], p_now timestamptz)
RETURNS TABLE (hold_ids uuid[], outcome text, expires_at timestamptz, conflicts text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE t timestamptz := coalesce(p_now, now()); until timestamptz; n int; cand int[]; lost int[]; won uuid[];
        on_sale boolean; most int; capped int; ttl interval; all_of boolean; single boolean;
BEGIN
  SELECT status = 'ON_SALE' AND t >= sales_open_at AND t < sales_close_at, max_seats, customer_cap, hold_ttl
    INTO on_sale, most, capped, ttl FROM bk.event WHERE event_id = p_event;
  IF on_sale IS NOT TRUE THEN RETURN; END IF;
  until := t + ttl;
  -- An unlocked look at who wants several seats: who may win, who surely lost. Who wants one seat needs none: a seat that is
  -- not free is not locked below.
  SELECT array_agg(i) INTO cand FROM generate_subscripts(p_wants, 1) i WHERE p_wants[i] = 1;
  single := cardinality(cand) IS NOT DISTINCT FROM cardinality(p_wants);
  IF NOT single THEN
    WITH look AS (
      SELECT i.r, count(*) FILTER (WHERE bk.free(s.status, s.hold_expires_at, s.channel, p_masks[i.r], t)) AS free
        FROM unnest(p_req, p_seats) i(r, c) LEFT JOIN bk.seat s ON s.event_id = p_event AND s.seat_code = i.c COLLATE "C"
       WHERE p_wants[i.r] BETWEEN 2 AND most GROUP BY i.r)
    SELECT coalesce(cand, '{}') || coalesce(array_agg(l.r) FILTER (WHERE l.free = p_wants[l.r]), '{}'), array_agg(l.r) FILTER (WHERE l.free < p_wants[l.r])
      INTO cand, lost FROM look l;
  END IF;
  IF cardinality(cand) > 0 AND capped IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(x.k) FROM (
      SELECT DISTINCT hashtextextended(p_event || '/' || p_customers[c.i], 7) AS k FROM unnest(cand) c(i) ORDER BY 1) x;
    SELECT array_agg(c.i ORDER BY c.i) INTO cand FROM unnest(cand) c(i)
     WHERE p_wants[c.i] + bk.held_of(p_customers[c.i], p_event, NULL, t) <= capped;
  END IF;
  all_of := cardinality(cand) = cardinality(p_ids);
  IF cardinality(cand) > 0 THEN
    WITH locked AS MATERIALIZED (                                -- in the one order, only what is free and may win
      SELECT i.r
        FROM unnest(p_req, p_seats) i(r, c)
        JOIN bk.seat s ON s.event_id = p_event AND s.seat_code = i.c COLLATE "C"
       WHERE (all_of OR i.r = ANY (cand)) AND bk.free(s.status, s.hold_expires_at, s.channel, p_masks[i.r], t)
       ORDER BY s.seat_code FOR NO KEY UPDATE OF s SKIP LOCKED),
    full_ AS (
      SELECT l.r FROM locked l WHERE single
      UNION ALL
      SELECT l.r FROM locked l WHERE NOT single GROUP BY l.r HAVING count(*) = p_wants[l.r]),
    made AS (
      INSERT INTO bk.booking (booking_id, kind, customer, room, session, status, event_id, items, ticket_types, quantity, amount_minor,
                              idempotency_key, request_hash, held_since, created_at, expires_at)
      SELECT p_ids[f.r], 'SEATS', p_customers[f.r], p_rooms[f.r], p_sessions[f.r], 'HOLD', p_event, p_items[f.r]::text[], p_types[f.r]::text[], p_wants[f.r],
             p_amounts[f.r], p_keys[f.r], p_hashes[f.r], t, t, until
        FROM full_ f
       ORDER BY p_customers[f.r] COLLATE "C", p_keys[f.r] COLLATE "C"
      ON CONFLICT (customer, idempotency_key) DO NOTHING
      RETURNING booking_id, items, customer),
    us AS (
      UPDATE bk.seat s SET status = 'HELD', booking_id = l.id, hold_expires_at = until
        FROM (SELECT m.booking_id AS id, unnest(m.items) AS c FROM made m) l
       WHERE s.event_id = p_event AND s.seat_code = l.c COLLATE "C"
         AND (s.status = 'AVAILABLE' OR (s.status = 'HELD' AND s.hold_expires_at <= t)) RETURNING 1),
    ob AS (                                                      -- some holds to an event: cheaper by half than one each
      INSERT INTO bk.outbox (topic, aggregatetype, aggregateid, type, payload)
      SELECT 'inventory-changed', 'event', p_event::text, 'SeatsHeld',
             json_build_object('event_id', p_event, 'holds', json_agg(json_build_object('hold_id', x.booking_id, 'seats', x.items, 'expires_at', until, 'customer', x.customer)))::jsonb
        FROM (SELECT m.*, (row_number() OVER () - 1) / 8 AS g FROM made m) x
       GROUP BY x.g ORDER BY x.g)
    SELECT array_agg(m.booking_id), (SELECT count(*) FROM us) - sum(cardinality(m.items)) INTO won, n FROM made m;
    IF n <> 0 THEN PERFORM bk.must(false, 'a hold is all or nothing'); END IF;
  END IF;
  IF won IS NOT NULL THEN RETURN QUERY SELECT won, 'held', until, NULL::text[]; END IF;
  IF coalesce(cardinality(won), 0) + coalesce(cardinality(lost), 0) < cardinality(p_ids) THEN
    SELECT coalesce(lost, '{}') || coalesce(array_agg(i), '{}') INTO lost FROM generate_subscripts(p_wants, 1) i
     WHERE p_wants[i] = 1 AND p_ids[i] <> ALL (coalesce(won, '{}'));
  END IF;
  IF cardinality(lost) > 0 THEN                                  -- a later statement, which sees what has been committed meanwhile
    RETURN QUERY
    SELECT ARRAY[p_ids[x.r]], 'taken', NULL::timestamptz, x.conflicts FROM (
      SELECT i.r, array_agg(i.c ORDER BY i.o) FILTER (WHERE bk.free(s.status, s.hold_expires_at, s.channel, p_masks[i.r], t) IS NOT TRUE) AS conflicts
        FROM unnest(p_req, p_seats) WITH ORDINALITY i(r, c, o) LEFT JOIN bk.seat s ON s.event_id = p_event AND s.seat_code = i.c COLLATE "C"
       WHERE i.r = ANY (lost) GROUP BY i.r) x
     WHERE x.conflicts IS NOT NULL
       AND (p_keys[x.r] IS NULL OR (SELECT b.booking_id FROM bk.booking b WHERE b.customer = p_customers[x.r] AND b.idempotency_key = p_keys[x.r]) IS NULL);
  END IF;
END $$;
-- +goose StatementEnd
