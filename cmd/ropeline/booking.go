package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"ropeline/admitter/token"
	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/slots"
	"ropeline/proxy"
	"ropeline/queue"
)

func bookingCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "booking --config FILE",
		Short: "Run the booking core on a listener of its own",
		Long: "Runs the booking core without an edge, at booking.listen. The edge in front names it as an upstream, as\n" +
			"http://127.0.0.1:8090, in rooms with forward_token: true; access tokens are verified here by the keys of booking.jwks_url\n" +
			"or signing.keys_file. Any number of such processes can share one Postgres. Metrics and health are at admin_listen, so\n" +
			"beside an edge on the same machine give it another one. SIGTERM and SIGINT drain.",
		Args: noArgs,
	}
	path := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := loadConfig(c, *path)
		if err != nil {
			return err
		}
		log := newLogger(c.ErrOrStderr(), cfg.Log, new(slog.LevelVar))
		for _, w := range config.BookingWarnings(cfg) {
			log.Warn("configuration", "warning", w)
		}
		b, err := newBooking(c.Context(), cfg, log)
		switch {
		case err != nil && c.Context().Err() != nil:
			return nil // told to stop before Postgres was there
		case err != nil:
			return err
		}
		defer b.close()
		return b.run(c.Context())
	}
	return c
}

// bookingNode is a process that runs the booking core alone.
type bookingNode struct {
	log      *slog.Logger
	cfg      *config.Config
	store    *store
	shop     *shop
	clock    *queue.Clock
	lines    map[string]*queue.Line // to give slots back; none where Redis is not shared with the edge
	rooms    map[string]config.Room
	keys     func(context.Context) error // keeps the keys fresh
	registry *prometheus.Registry
	ready    atomic.Bool

	listener, adminListener net.Listener
	admin                   *http.Server
}

// newBooking builds a node. It waits for Postgres until ctx ends, and for Redis only if the signing keys are there.
func newBooking(ctx context.Context, cfg *config.Config, log *slog.Logger) (b *bookingNode, err error) {
	b = &bookingNode{log: log, cfg: cfg, clock: &queue.Clock{}, lines: map[string]*queue.Line{}, rooms: map[string]config.Room{}, registry: prometheus.NewRegistry()}
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for _, r := range cfg.Rooms {
		b.rooms[r.ID] = r
	}
	if err := b.openAdmin(); err != nil {
		return b, fmt.Errorf("admin_listen: %w", err)
	}
	redis.SetLogger(redisLog{log})
	if b.store, err = openStore(ctx, cfg.Redis.URL, log); err != nil {
		return b, err
	}
	verify, secrets, err := b.openKeys(ctx)
	if err != nil {
		return b, err
	}
	b.openLines()
	admitted := admissions{verify: verify, room: b.configured, ended: b.ended}
	if b.shop, err = openShop(ctx, cfg.Booking, around{
		redis: b.store, identify: admitted.identify, leave: b.leave, keys: secrets, log: log, metrics: b.registry,
	}); err != nil {
		return b, err
	}
	if b.listener, err = net.Listen("tcp", cfg.Booking.Listen); err != nil {
		return b, fmt.Errorf("booking.listen: %w", err)
	}
	return b, nil
}

// openKeys finds what verifies access tokens, and what customer keys are signed with if the signing keys are known here.
func (b *bookingNode) openKeys(ctx context.Context) (func(room, tok string) (token.Claims, error), [][]byte, error) {
	if address := b.cfg.Booking.JWKSURL; address != "" {
		remote, err := token.NewRemote(address, token.RemoteConfig{Logger: b.log})
		if err != nil {
			return nil, nil, fmt.Errorf("booking.jwks_url: %w", err)
		}
		b.keys = remote.Run
		return remote.Verify, nil, nil
	}
	if b.cfg.Signing.KeysFile == "" && !b.cfg.Redis.Shared() {
		return nil, nil, errors.New("booking.jwks_url: is needed, as neither signing.keys_file nor a Redis shared with the edge has the keys of access tokens")
	}
	authority := token.New(nil, token.Config{})
	ring := &keyring{log: b.log, report: func(error) {}, apply: func(keys *token.Keys, _ *queue.Sealer) { authority.SetKeys(keys) }}
	if err := await(ctx, b.log, "Redis", "signing keys", queue.ErrAway, func() error { return ring.load(ctx, b.store, b.cfg.Signing) }); err != nil {
		return nil, nil, err
	}
	b.keys = ring.run
	return authority.Verify, customerSecrets(authority.Keys()), nil
}

// openLines makes the lines whose slots are given back. They run without an admitter: who is admitted is the edge's business.
func (b *bookingNode) openLines() {
	if !b.cfg.Redis.Shared() {
		b.log.Warn("slots of waiting rooms are not given back: redis.url names no Redis that is shared with the edge")
		return
	}
	metrics := queue.NewMetrics(b.registry)
	for id := range b.rooms {
		b.lines[id] = queue.New(b.store, id, queue.Config{NodeClock: b.clock, Logger: b.log, Metrics: metrics})
	}
}

func (b *bookingNode) configured(id string) (config.Room, bool) {
	r, ok := b.rooms[id]
	return r, ok
}

func (b *bookingNode) ended(id, session string) bool {
	line := b.lines[id]
	return line != nil && line.Ended(session)
}

func (b *bookingNode) leave(ctx context.Context, id string, s slots.Session) error {
	line := b.lines[id]
	if line == nil {
		return nil
	}
	_, err := line.Leave(ctx, s.Place, s.Expires)
	return err
}

// openAdmin serves the admin listener from the beginning: it also tells that the process waits for Postgres.
func (b *bookingNode) openAdmin() (err error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", b.whenReady(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ready\n")) }))
	mux.HandleFunc("GET /admin/v1/booking", b.whenReady(func(w http.ResponseWriter, r *http.Request) { b.shop.serveSales(w, r) }))
	if b.adminListener, err = net.Listen("tcp", b.cfg.AdminListen); err != nil {
		return err
	}
	b.admin = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = b.admin.Serve(b.adminListener) }() // until close
	return nil
}

// whenReady answers 503 before the core serves and once it drains. It stays ready while Postgres is away: the routes say so.
func (b *bookingNode) whenReady(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !b.ready.Load() {
			http.Error(w, "not serving", http.StatusServiceUnavailable)
			return
		}
		h(w, r)
	}
}

// run serves until ctx ends, then finishes the requests in flight.
func (b *bookingNode) run(ctx context.Context) error {
	server, err := proxy.NewServer(b.shop.api, proxy.ServerConfig{CertFile: b.cfg.TLS.CertFile, KeyFile: b.cfg.TLS.KeyFile, MaxConns: maxConns(), Logger: b.log})
	if err != nil {
		return err
	}
	b.ready.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // to the last request
	defer stop()
	group.Go(func() error { return b.keys(working) })
	for _, line := range b.lines {
		group.Go(func() error { return line.Run(working) })
	}
	group.Go(func() error { return b.shop.run(working) })
	group.Go(func() error { return server.Serve(b.listener) })
	group.Go(func() error {
		<-ctx.Done()
		b.drain(server)
		stop()
		return nil
	})
	b.log.Info("serving", "listen", b.listener.Addr().String(), "admin", b.adminListener.Addr().String(), "postgres", b.shop.db.what, "version", versionText())
	err = group.Wait()
	b.log.Info("stopped")
	return err
}

func (b *bookingNode) drain(server *proxy.Server) {
	b.ready.Store(false)
	b.log.Info("draining", "grace", b.cfg.ShutdownGrace.String())
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.ShutdownGrace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		b.log.Warn("requests cut at the end of shutdown_grace", "err", err)
	}
}

// close gives back what newBooking took.
func (b *bookingNode) close() {
	b.ready.Store(false)
	if b.listener != nil {
		_ = b.listener.Close()
	}
	if b.admin != nil {
		_ = b.admin.Close()
	}
	if b.shop != nil {
		b.shop.close()
	}
	if b.store != nil {
		b.store.close()
	}
}
