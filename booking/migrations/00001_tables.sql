-- +goose Up
-- The tables of the booking core. A hold, an order and a booking are one row with one life (bk.booking); seats point at it.
-- Locks are taken in one order everywhere: payment, booking, customer (advisory), seats by (event_id, seat_code).

CREATE SCHEMA IF NOT EXISTS bk;

CREATE TABLE bk.map (                                  -- a hall: its seats are shared by all showtimes
  map_id bigint PRIMARY KEY,
  name   text NOT NULL
);

CREATE TABLE bk.map_seat (                             -- static: where a seat stands and what kind it is
  map_id     bigint NOT NULL REFERENCES bk.map,
  seat_code  text COLLATE "C" NOT NULL CHECK (seat_code ~ '^[A-Za-z0-9_.:-]{1,32}$'),
  section    text NOT NULL,
  row_key    text COLLATE "C" NOT NULL,
  pos        int NOT NULL,                             -- physical order in the row, never the printed number
  tier       text NOT NULL,
  rank       int NOT NULL DEFAULT 0,                   -- distance to the focal point
  x          real,
  y          real,
  accessible boolean NOT NULL DEFAULT false,
  PRIMARY KEY (map_id, seat_code),
  UNIQUE (map_id, section, row_key, pos)
);

CREATE TABLE bk.event (                                -- one showtime, one concert, or one bookable room
  event_id       bigint PRIMARY KEY CHECK (event_id > 0), -- ordered by time: it is the partition key of bk.seat
  kind           text NOT NULL CHECK (kind IN ('showtime','concert','room')),
  map_id         bigint REFERENCES bk.map,
  name           text NOT NULL,
  starts_at      timestamptz NOT NULL,
  venue_tz       text NOT NULL,                        -- IANA name; for display only
  currency       char(3) NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  status         text NOT NULL DEFAULT 'DRAFT' CHECK (status IN ('DRAFT','ON_SALE','PAUSED','CLOSED','CANCELLED')),
  sales_open_at  timestamptz NOT NULL DEFAULT '-infinity',
  sales_close_at timestamptz NOT NULL DEFAULT 'infinity',
  hold_ttl       interval NOT NULL DEFAULT '10 min',
  checkout_ttl   interval NOT NULL DEFAULT '8 min',
  max_hold_age   interval NOT NULL DEFAULT '20 min',   -- hard stop for extend and swap
  max_seats      int NOT NULL DEFAULT 8 CHECK (max_seats BETWEEN 1 AND 50),
  customer_cap   int CHECK (customer_cap > 0),         -- live and sold seats of one customer; NULL = none
  holds_per_min  int NOT NULL DEFAULT 5 CHECK (holds_per_min >= 0), -- of one customer; 0 = no limit
  redis_gate     boolean NOT NULL DEFAULT false,       -- a gate in Redis sheds holds before they reach Postgres
  rooms          text[] NOT NULL DEFAULT '{}',         -- waiting rooms whose token opens it; none: no token is asked for
  orphan_rule    text NOT NULL DEFAULT 'off' CHECK (orphan_rule IN ('off','warn','refuse')),
  late_policy    text NOT NULL DEFAULT 'refund' CHECK (late_policy IN ('refund','reacquire')),
  CONSTRAINT checkout_shorter_than_hold CHECK (checkout_ttl > '0 s' AND checkout_ttl < hold_ttl),
  CONSTRAINT hold_age_cap CHECK (max_hold_age >= hold_ttl),
  CONSTRAINT sale_window CHECK (sales_open_at < sales_close_at)
);

CREATE TABLE bk.event_price (
  event_id     bigint NOT NULL REFERENCES bk.event,
  tier         text NOT NULL,
  ticket_type  text NOT NULL DEFAULT 'standard',
  amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
  PRIMARY KEY (event_id, tier, ticket_type)
);

CREATE TABLE bk.seat (                                 -- hot state only. The primary key is the only index: every update stays HOT
  event_id        bigint NOT NULL,
  seat_code       text COLLATE "C" NOT NULL,
  status          text NOT NULL DEFAULT 'AVAILABLE' CHECK (status IN ('AVAILABLE','HELD','SOLD','BLOCKED')),
  channel         smallint NOT NULL DEFAULT 0 CHECK (channel BETWEEN 0 AND 62), -- 0 = public
  booking_id      uuid,                                -- who holds it while HELD, who owns it once SOLD
  hold_expires_at timestamptz,
  PRIMARY KEY (event_id, seat_code),
  CONSTRAINT owned_iff_taken CHECK ((status IN ('HELD','SOLD')) = (booking_id IS NOT NULL)),
  CONSTRAINT expiry_iff_held CHECK ((status = 'HELD') = (hold_expires_at IS NOT NULL))
) PARTITION BY RANGE (event_id);

-- Rows that no partition was made for are not lost, but they are an alarm: see bk.make_partitions.
CREATE TABLE bk.seat_rest PARTITION OF bk.seat DEFAULT WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE bk.night (                                -- hotel inventory of a room type; a row exists only where that night is on sale
  hotel_id     bigint NOT NULL,
  room_type_id bigint NOT NULL,
  stay_date    date NOT NULL,
  total_rooms  int NOT NULL CHECK (total_rooms >= 0),
  reserved     int NOT NULL DEFAULT 0,
  closed       boolean NOT NULL DEFAULT false,
  PRIMARY KEY (hotel_id, room_type_id, stay_date),
  CONSTRAINT chk_not_oversold CHECK (reserved >= 0 AND reserved <= total_rooms)
) WITH (fillfactor = 80);

CREATE TABLE bk.booking (
  booking_id      uuid PRIMARY KEY,                    -- UUIDv7: the API's holdId, orderId and bookingId
  kind            text NOT NULL CHECK (kind IN ('SEATS','NIGHTS')),
  customer        text COLLATE "C" NOT NULL CHECK (length(customer) BETWEEN 1 AND 200),
  room            text,                                -- waiting room through which the customer came
  session         text,                                -- what that room needs to take the slot back
  status          text NOT NULL CHECK (status IN ('HOLD','CONFIRMED','CANCELLED','EXPIRED','FAILED')),
  event_id        bigint,
  items           text[] COLLATE "C",                  -- sorted seat codes: everything reaches seats by primary key
  ticket_types    text[],                              -- beside items; NULL: all standard
  hotel_id        bigint,
  room_type_id    bigint,
  check_in        date,
  check_out       date,
  quantity        int NOT NULL CHECK (quantity BETWEEN 1 AND 500),
  amount_minor    bigint NOT NULL DEFAULT 0 CHECK (amount_minor >= 0),
  idempotency_key text CHECK (length(idempotency_key) BETWEEN 1 AND 64),
  request_hash    bytea,
  extend_keys     text[],                              -- idempotency keys of the extensions so far
  replaces        uuid,                                -- the hold this one was swapped for
  held_since      timestamptz NOT NULL,                -- survives swaps: extend and swap can't hoard for ever
  created_at      timestamptz NOT NULL,
  expires_at      timestamptz NOT NULL,
  resolved_at     timestamptz,
  CONSTRAINT open_iff_hold CHECK ((status = 'HOLD') = (resolved_at IS NULL)),
  CONSTRAINT expires_after_created CHECK (expires_at > created_at AND created_at >= held_since),
  CONSTRAINT seats_shape CHECK (kind <> 'SEATS' OR (event_id IS NOT NULL AND cardinality(items) = quantity AND check_in IS NULL)),
  CONSTRAINT nights_shape CHECK (kind <> 'NIGHTS' OR (hotel_id IS NOT NULL AND room_type_id IS NOT NULL AND items IS NULL
                                                      AND check_out > check_in AND check_out - check_in <= 366))
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX booking_idem     ON bk.booking (customer, idempotency_key); -- also finds what a customer has
CREATE INDEX        booking_due      ON bk.booking (expires_at) WHERE status = 'HOLD';
CREATE INDEX        booking_nights   ON bk.booking (hotel_id, room_type_id, expires_at) WHERE status = 'HOLD' AND kind = 'NIGHTS';

CREATE TABLE bk.payment (
  payment_id          uuid PRIMARY KEY,                -- our reference at the provider: known before the provider is called
  booking_id          uuid NOT NULL REFERENCES bk.booking,
  provider            text NOT NULL,                   -- 'none' where there is nothing to pay
  provider_ref        text NOT NULL,
  idempotency_key     text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 64), -- of this attempt to pay, not of the booking
  request_hash        bytea,
  amount_minor        bigint NOT NULL CHECK (amount_minor >= 0), -- 0: nothing to pay, confirmed at once
  currency            char(3) NOT NULL,
  status              text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING','SUCCEEDED','DECLINED','EXPIRED','REFUND_DUE','REFUNDED')),
  gateway_ref         text,                            -- the provider's own id of the payment page
  charge_ref          text,                            -- the provider's own id of the money, for refunds
  checkout_url        text,
  captured_minor      bigint,                          -- what the provider says it took
  captured_currency   char(3),
  created_at          timestamptz NOT NULL DEFAULT now(),
  checkout_expires_at timestamptz NOT NULL,
  settled_at          timestamptz,
  closed_at           timestamptz,                     -- when the provider was told to close the payment page
  next_check_at       timestamptz NOT NULL,
  checks              int NOT NULL DEFAULT 0,
  UNIQUE (provider, provider_ref),
  UNIQUE (booking_id, idempotency_key)
);
CREATE UNIQUE INDEX payment_one_success ON bk.payment (booking_id) WHERE status = 'SUCCEEDED';
CREATE INDEX        payment_reconcile   ON bk.payment (next_check_at) WHERE status = 'PENDING';

CREATE TABLE bk.refund (
  refund_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(), -- the idempotency key at the provider: the row outlives every failed try
  payment_id   uuid NOT NULL REFERENCES bk.payment,
  reason       text NOT NULL,
  amount_minor bigint NOT NULL CHECK (amount_minor > 0),
  status       text NOT NULL DEFAULT 'DUE' CHECK (status IN ('DUE','SENT','DONE','FAILED')),
  gateway_ref  text,
  last_error   text,
  next_try_at  timestamptz NOT NULL DEFAULT now(),
  tries        int NOT NULL DEFAULT 0,
  created_at   timestamptz NOT NULL DEFAULT now(),
  done_at      timestamptz,
  UNIQUE (payment_id, reason)
);
CREATE INDEX refund_due ON bk.refund (next_try_at) WHERE status IN ('DUE','SENT');

CREATE TABLE bk.inbox (                                -- provider events that were applied
  provider     text NOT NULL,
  event_id     text NOT NULL,
  provider_ref text NOT NULL,
  received_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (provider, event_id)
);

CREATE TABLE bk.ticket (
  ticket_id  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  booking_id uuid NOT NULL,
  event_id   bigint NOT NULL,
  seat_code  text COLLATE "C" NOT NULL,
  status     text NOT NULL DEFAULT 'VALID' CHECK (status IN ('VALID','USED','VOID')),
  used_at    timestamptz
);
CREATE UNIQUE INDEX ticket_one_live ON bk.ticket (event_id, seat_code) WHERE status <> 'VOID'; -- a second guard against a double sale
CREATE INDEX        ticket_booking  ON bk.ticket (booking_id);

CREATE TABLE bk.outbox (                               -- deleted once published; its columns fit the Debezium event router
  seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of writing within a key, not of commit across keys
  id            uuid NOT NULL DEFAULT gen_random_uuid(),
  topic         text NOT NULL CHECK (topic IN ('booking-events','ticket-issued','inventory-changed')),
  aggregatetype text NOT NULL,
  aggregateid   text NOT NULL,
  type          text NOT NULL,
  payload       jsonb NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  shard         smallint NOT NULL GENERATED ALWAYS AS ((hashtext(aggregateid) & 3)::smallint) STORED,
  told          boolean NOT NULL DEFAULT false,        -- the nodes heard of it, but the broker did not yet
  stuck         text                                   -- why the broker will never take it; its key waits behind it
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX outbox_shard  ON bk.outbox (shard, seq);
CREATE INDEX outbox_untold ON bk.outbox (shard, seq) WHERE NOT told;
