package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"ropeline/admitter"
	"ropeline/admitter/token"
	"ropeline/cmd/ropeline/config"
	"ropeline/proxy"
	"ropeline/queue"
)

// node is one running process: the edge, and an admitter for each room.
type node struct {
	log     *slog.Logger
	store   *store
	clock   *queue.Clock
	tokens  *token.Authority
	edge    *proxy.Edge
	keys    *keyring
	watcher *config.Watcher      // nil where nothing follows a file
	shop    atomic.Pointer[shop] // the booking core, nil where no upstream is it
	toShop  late

	registry *prometheus.Registry
	metrics  nodeMetrics
	lines    *queue.Metrics
	admits   *admitter.Metrics

	cfg      atomic.Pointer[config.Config] // as it was at the start
	running  atomic.Pointer[config.Config] // as it is
	keysBad  atomic.Pointer[string]        // what is wrong with the keys file
	restart  atomic.Pointer[[]string]      // keys whose change waits for a restart
	mu       sync.Mutex                    // rooms
	rooms    map[string]*room
	draining atomic.Bool
	serving  atomic.Bool

	listener, adminListener net.Listener
	adminServer             *http.Server
	adminEnded              chan error
}

// newNode builds a node. It returns once joins can be answered, with its listeners open: that is, it waits for Redis until
// ctx ends.
func newNode(ctx context.Context, cfg *config.Config, log *slog.Logger) (*node, error) {
	n := &node{log: log, clock: &queue.Clock{}, registry: prometheus.NewRegistry(), rooms: map[string]*room{}}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.metrics = newNodeMetrics(n.registry)
	n.lines, n.admits = queue.NewMetrics(n.registry), admitter.NewMetrics(n.registry)
	n.tokens = token.New(nil, token.Config{Now: n.clock.Now})
	n.edge = proxy.New(n.tokens, proxy.Config{
		TrustedProxies: cfg.TrustedProxies, Logger: log, Metrics: n.registry,
		Local: map[string]http.RoundTripper{"booking": &n.toShop}, Core: shopPaths{n},
	})
	n.keys = &keyring{log: log, report: n.keysRead, apply: func(keys *token.Keys, sealer *queue.Sealer) {
		n.tokens.SetKeys(keys)
		n.edge.SetSealer(sealer)
	}}
	n.cfg.Store(cfg)
	n.running.Store(cfg)
	if err := n.open(ctx, cfg); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *node) open(ctx context.Context, cfg *config.Config) (err error) {
	if err := n.openAdmin(cfg.AdminListen); err != nil {
		return fmt.Errorf("admin_listen: %w", err)
	}
	redis.SetLogger(redisLog{n.log})
	if n.store, err = openStore(ctx, cfg.Redis.URL, n.log); err != nil {
		return err
	}
	if err := n.untilRedis(ctx, "signing keys", func() error { return n.keys.load(ctx, n.store, cfg.Signing) }); err != nil {
		return err
	}
	for _, w := range n.store.warnings(ctx) {
		n.log.Warn("redis", "warning", w)
	}
	if cfg.UsesBooking() {
		if err := n.openShop(ctx, cfg.Booking); err != nil {
			return err
		}
	}
	for _, r := range cfg.Rooms {
		rm := n.addRoom(r)
		if err := n.untilRedis(ctx, "room "+r.ID, func() error { return rm.line.Open(ctx) }); err != nil {
			return err
		}
	}
	if err := n.applySite(cfg); err != nil {
		return err
	}
	n.startRooms(ctx)
	if n.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// openAdmin serves the admin listener from the beginning: it also tells that the node waits for Redis.
func (n *node) openAdmin(address string) (err error) {
	if n.adminListener, err = net.Listen("tcp", address); err != nil {
		return err
	}
	n.adminServer = &http.Server{Handler: n.admin(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	n.adminEnded = make(chan error, 1)
	go func() { n.adminEnded <- n.adminServer.Serve(n.adminListener) }()
	return nil
}

// startRooms runs the rooms, and waits a moment for a leader's first snapshot of each: until then nobody is admitted.
func (n *node) startRooms(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, rm := range n.rooms {
		rm.start(n.log)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, rm := range n.rooms {
		for rm.line.Snapshot() == nil && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// untilRedis repeats work while Redis is away, so that a node may be started before it.
func (n *node) untilRedis(ctx context.Context, what string, work func() error) error {
	return await(ctx, n.log, "Redis", what, queue.ErrAway, work)
}

// addr is where visitors connect.
func (n *node) addr() string { return n.listener.Addr().String() }

// run serves until ctx ends, then drains: no new connections, the lease handed over, requests finished, presence flushed.
func (n *node) run(ctx context.Context) error {
	cfg := n.cfg.Load()
	server, err := proxy.NewServer(n.edge, proxy.ServerConfig{CertFile: cfg.TLS.CertFile, KeyFile: cfg.TLS.KeyFile, MaxConns: maxConns(), Logger: n.log})
	if err != nil {
		return err
	}
	server.OnShutdown(func() { // event streams and sockets, which Shutdown would wait for in vain
		ctx, cancel := context.WithTimeout(context.Background(), cfg.ShutdownGrace)
		defer cancel()
		if err := n.edge.CloseUpgraded(ctx); err != nil {
			n.log.Warn("upgraded connections cut", "err", err)
		}
	})
	n.serving.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	selling, stopSelling := context.WithCancel(context.WithoutCancel(ctx)) // to the last request
	defer stopSelling()
	if s := n.shop.Load(); s != nil {
		group.Go(func() error { return s.run(selling) })
	}
	group.Go(func() error { return n.keys.run(ctx) })
	if n.watcher != nil {
		group.Go(func() error { return n.watcher.Run(ctx) })
	}
	group.Go(func() error { return server.Serve(n.listener) })
	group.Go(func() error {
		if err := <-n.adminEnded; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("admin: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		n.drain(server, cfg.ShutdownGrace)
		stopSelling()
		return nil
	})
	n.log.Info("serving", "listen", n.addr(), "admin", n.adminListener.Addr().String(), "redis", n.store.what, "version", versionText())
	err = group.Wait()
	n.log.Info("stopped")
	return err
}

func (n *node) drain(server *proxy.Server, grace time.Duration) {
	n.draining.Store(true)
	n.log.Info("draining", "grace", grace.String())
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, rm := range n.liveRooms() {
		rm.resign()
	}
	if err := server.Shutdown(ctx); err != nil {
		n.log.Warn("requests cut at the end of shutdown_grace", "err", err)
	}
	n.stopRooms()
	_ = n.adminServer.Shutdown(ctx)
}

func (n *node) stopRooms() {
	for _, rm := range n.liveRooms() {
		rm.stop()
	}
}

// liveRooms are the rooms of the moment.
func (n *node) liveRooms() []*room {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.rooms))
}

// close gives back what open took.
func (n *node) close() {
	n.stopRooms()
	if n.listener != nil {
		_ = n.listener.Close()
	}
	if n.adminServer != nil {
		_ = n.adminServer.Close()
	}
	if s := n.shop.Load(); s != nil {
		s.close()
	}
	if n.store != nil {
		n.store.close()
	}
}
