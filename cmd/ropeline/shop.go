package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"ropeline/booking"
	"ropeline/booking/api"
	"ropeline/booking/gate"
	"ropeline/booking/outbox"
	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/slots"
	"ropeline/internal/recent"
)

// shop is the booking core as one process runs it, with its API and what belongs to them: pools, gate, payment provider,
// broker, and what gives the slots of waiting rooms back.
type shop struct {
	log         *slog.Logger
	db          *database
	holds, work *pgxpool.Pool
	core        *booking.Core
	api         http.Handler
	slots       *slots.Slots
	sandbox     *sandboxServer // nil where the provider is another
	sink        outbox.Sink    // nil without a broker
	sales       salesCounts
	rooms       *recent.Cache[int64, roomAnswer]
}

// around is what a process that runs a shop gives it.
type around struct {
	redis    redis.UniversalClient // of the gate
	identify func(*http.Request) (booking.Admission, bool)
	leave    slots.Leave
	keys     [][]byte // secrets derived from the signing keys, the one in use first
	log      *slog.Logger
	metrics  prometheus.Registerer
}

// openShop builds a shop. It waits for Postgres until ctx ends, and refuses one whose tables are older than this program.
func openShop(ctx context.Context, cfg config.Booking, with around) (*shop, error) {
	s := &shop{log: with.log, rooms: recent.New[int64, roomAnswer](4096)}
	if err := s.open(ctx, cfg, with); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *shop) open(ctx context.Context, cfg config.Booking, with around) error {
	files, err := readSecrets(cfg)
	if err != nil {
		return err
	}
	if s.db, err = openDatabase(ctx, cfg.Postgres, with.log); err != nil {
		return err
	}
	if err = s.db.ready(ctx, with.log); err != nil {
		return err
	}
	if s.holds, err = booking.OpenHolds(ctx, s.db.url, int32(cfg.HoldConnections)); err != nil {
		return err
	}
	if s.work, err = booking.OpenWork(ctx, s.db.url, int32(cfg.WorkConnections)); err != nil {
		return err
	}
	if s.sink, err = openSink(cfg.Kafka, files, with.log); err != nil {
		return err
	}
	provider, err := s.openProvider(cfg, files)
	if err != nil {
		return err
	}
	secret, err := s.signers(files["booking.customer_secret_file"], with.keys)
	if err != nil {
		return err
	}
	s.build(cfg, files["booking.service_token_file"], secret, with, provider)
	return nil
}

// gateTimeout is how long a hold waits for the gate: a busy machine answers later than Redis does, and then the gate would open
// just when there is a crowd.
const gateTimeout = 150 * time.Millisecond

// build puts the parts together. Nothing runs yet but the sandbox.
func (s *shop) build(cfg config.Booking, service string, secret [][]byte, with around, provider providers) {
	marks := gate.New(with.redis, gate.Config{Timeout: gateTimeout, Logger: with.log, Metrics: with.metrics})
	s.core = booking.New(s.holds, s.work, booking.Config{
		Providers: provider.list, Gate: marks, Limits: marks, Sink: s.sink, Feed: true,
		On:     func(e outbox.Event) { s.slots.On(e) },
		Logger: with.log, Metrics: with.metrics,
	})
	s.slots = slots.New(s.core.Live, with.leave, slots.Config{Logger: with.log, Metrics: with.metrics})
	s.api = front{next: s.core.Next, shop: api.New(storefront{s.core, cfg.PublicURL}, api.Config{
		Identify: with.identify, Secret: secret[0], OldSecrets: secret[1:],
		ServiceToken: service, ProviderNames: provider.names(),
		TLS:    cameByTLS,
		Logger: with.log, Metrics: with.metrics,
	})}
	if s.sandbox != nil {
		s.sandbox.callTo(s.api)
	}
}

// cameByTLS reports whether the customer's connection is encrypted. Behind the edge that is what the edge says.
func cameByTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// openSink returns the broker, nil without one.
func openSink(cfg config.Kafka, files secrets, log *slog.Logger) (outbox.Sink, error) {
	if len(cfg.Brokers) == 0 {
		return nil, nil
	}
	kafka := outbox.KafkaConfig{Brokers: cfg.Brokers, Prefix: cfg.TopicPrefix, Logger: log}
	if cfg.TLS {
		kafka.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.SASLUser != "" {
		kafka.SASL = outbox.SASL{Mechanism: cfg.SASLMechanism, User: cfg.SASLUser, Password: files["booking.kafka.sasl_password_file"]}
	}
	sink, err := outbox.NewKafka(kafka)
	if err != nil {
		return nil, fmt.Errorf("booking.kafka: %w", err)
	}
	return sink, nil
}

// run works until ctx ends.
func (s *shop) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.core.Run(ctx) })
	group.Go(func() error { return s.slots.Run(ctx) })
	if s.sandbox != nil {
		group.Go(func() error { return s.sandbox.run(ctx) })
	}
	return group.Wait()
}

// close gives back what openShop took.
func (s *shop) close() {
	if s.sandbox != nil {
		s.sandbox.close()
	}
	for _, pool := range []*pgxpool.Pool{s.holds, s.work} {
		if pool != nil {
			pool.Close()
		}
	}
	if s.sink != nil {
		s.sink.Close()
	}
	if s.db != nil {
		s.db.stop()
	}
}

// storefront is the core as the API sees it: who names no way back from a payment page goes to the order.
type storefront struct {
	*booking.Core
	public string // booking.public_url
}

// Checkout is [booking.Core.Checkout].
func (f storefront) Checkout(ctx context.Context, r booking.CheckoutRequest) (booking.Checkout, error) {
	if r.ReturnURL == "" && f.public != "" {
		r.ReturnURL = f.public + "/orders/" + r.Hold.String()
	}
	return f.Core.Checkout(ctx, r)
}
