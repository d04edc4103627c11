package main

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync/atomic"

	"ropeline/admitter"
	"ropeline/cmd/ropeline/config"
	"ropeline/proxy"
	"ropeline/queue"
)

// room is what runs for one room.
type room struct {
	cfg      atomic.Pointer[config.Room]
	line     *queue.Line
	admitter *admitter.Admitter

	resign, cancel  context.CancelFunc
	admitted, lined chan struct{} // closed when the admitter, and the line, have put their work away
}

// addRoom makes the parts of a room. It does not run yet.
func (n *node) addRoom(cfg config.Room) *room {
	rm := &room{resign: func() {}, cancel: func() {}}
	rm.cfg.Store(&cfg)
	rm.line = queue.New(n.store, cfg.ID, queue.Config{
		NodeClock: n.clock, MaxWaiting: n.store.maxWaiting, Logger: n.log, Metrics: n.lines,
		Pace: func() queue.Pace {
			p := rm.cfg.Load().Poll
			return queue.Pace{Min: p.Min, Max: p.Max, Budget: float64(p.Budget)}
		},
	})
	rm.admitter = admitter.New(rm.line, n.tokens, rm.settings, admitter.Config{Logger: n.log, Metrics: n.admits})
	n.mu.Lock()
	n.rooms[cfg.ID] = rm
	n.mu.Unlock()
	return rm
}

// settings are what the organizer's file says of the room.
func (rm *room) settings() admitter.Settings {
	c := rm.cfg.Load()
	return admitter.Settings{
		Settings: queue.Settings{
			Mode: queue.Mode(c.State), Reason: c.Reason, Rate: float64(c.Rate), Limit: c.ActiveLimit,
			OpensAt: c.OpensAt, Claim: c.ClaimWindow, Session: c.Session,
		},
		SignAtClaim: c.Identity != "",
	}
}

// start runs the room's line and admitter.
func (rm *room) start(log *slog.Logger) {
	lineCtx, cancel := context.WithCancel(context.Background())
	admitCtx, resign := context.WithCancel(lineCtx)
	rm.cancel, rm.resign = cancel, resign
	rm.admitted, rm.lined = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(rm.lined)
		if err := rm.line.Run(lineCtx); err != nil {
			log.Error("line", "room", rm.line.Room(), "err", err)
		}
	}()
	go func() {
		defer close(rm.admitted)
		if err := rm.admitter.Run(admitCtx); err != nil {
			log.Error("admitter", "room", rm.line.Room(), "err", err)
		}
	}()
}

// stop gives the lease up, flushes what the line holds, and waits for both.
func (rm *room) stop() {
	rm.resign()
	if rm.admitted != nil {
		<-rm.admitted
	}
	rm.cancel()
	if rm.lined != nil {
		<-rm.lined
	}
}

// reload makes a changed configuration take effect: rooms that go, rooms that come, and what is new in the others.
func (n *node) reload(ctx context.Context, cfg *config.Config) {
	if cfg.UsesBooking() && n.shop.Load() == nil {
		n.restart.Store(&[]string{"upstream"})
		n.badConfig(errNoShop)
		return
	}
	waits := config.NeedsRestart(n.cfg.Load(), cfg)
	known := map[string]*room{}
	for _, rm := range n.liveRooms() {
		known[rm.line.Room()] = rm
	}
	var added []string
	kept := map[string]*room{}
	for _, r := range cfg.Rooms {
		if rm := known[r.ID]; rm != nil {
			kept[r.ID] = rm
			delete(known, r.ID)
			continue
		}
		rm := n.addRoom(r)
		if err := rm.line.Open(ctx); err != nil {
			n.log.Warn("the new room's line opens when Redis is back", "room", r.ID, "err", err)
		}
		rm.start(n.log)
		added = append(added, r.ID)
		n.log.Info("room added", "room", r.ID)
	}
	if err := n.applySite(cfg); err != nil {
		n.removeRooms(added)
		n.badConfig(err)
		return
	}
	for _, r := range cfg.Rooms {
		if rm := kept[r.ID]; rm != nil {
			rm.cfg.Store(&r)
		}
	}
	n.removeRooms(slices.Collect(maps.Keys(known))) // no request finds them any more
	n.restart.Store(&waits)
	n.metrics.reloaded(true)
	n.log.Info("configuration read anew", "hash", cfg.Hash(), "changed", config.Changes(n.running.Swap(cfg), cfg))
	for _, key := range waits {
		n.log.Warn("this change takes effect at the next start", "key", key)
	}
	for _, w := range config.Warnings(cfg) {
		n.log.Warn("configuration", "warning", w)
	}
}

func (n *node) removeRooms(ids []string) {
	for _, id := range ids {
		n.mu.Lock()
		rm := n.rooms[id]
		delete(n.rooms, id)
		n.mu.Unlock()
		rm.stop()
		n.log.Info("room removed", "room", id)
	}
}

// keysRead tells how a changed keys file stands.
func (n *node) keysRead(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	n.keysBad.Store(&text)
	n.metrics.keysRead(err == nil)
}

// badConfig tells that a changed file is not used.
func (n *node) badConfig(err error) {
	n.metrics.reloaded(false)
	n.log.Error("configuration not used, the old one stays", "err", err)
}

// applySite gives the edge the rooms of a configuration. Keys that need a restart keep their first values elsewhere.
func (n *node) applySite(cfg *config.Config) error {
	rooms := make([]proxy.Room, 0, len(cfg.Rooms))
	n.mu.Lock()
	for _, r := range cfg.Rooms {
		rooms = append(rooms, edgeRoom(r, n.rooms[r.ID].line))
	}
	n.mu.Unlock()
	return n.edge.SetSite(rooms, cfg.Upstream)
}

func edgeRoom(r config.Room, line *queue.Line) proxy.Room {
	entry := "/"
	if len(r.Paths) > 0 {
		entry = (&url.URL{Path: r.Paths[0]}).EscapedPath()
	}
	return proxy.Room{
		Route: proxy.Route{Room: r.ID, Hosts: r.Hosts, Paths: r.Paths, PublicPaths: r.PublicPaths, Gate: r.AmbiguousPaths == "gate"},
		Title: r.Title, Entry: entry, Languages: r.Languages, Upstream: r.Upstream,
		Session: r.Session, SessionMax: r.SessionMax, Claim: r.ClaimWindow, Sliding: r.Sliding,
		ForwardToken: r.ForwardToken, Identity: r.Identity, OutageOpen: r.OnOutage == "open", CORSOrigins: r.CORSOrigins,
		Zone: r.OpensAt.Location(),
		Line: line,
	}
}
