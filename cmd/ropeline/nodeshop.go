package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/api"
	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/slots"
	"ropeline/proxy"
)

// openShop opens the booking core behind the edge. It waits for Postgres until ctx ends.
func (n *node) openShop(ctx context.Context, cfg config.Booking) error {
	admitted := admissions{verify: n.tokens.Verify, room: n.configured, ended: n.ended}
	s, err := openShop(ctx, cfg, around{
		redis: n.store, identify: admitted.identify, leave: n.leave, keys: customerSecrets(n.tokens.Keys()), log: n.log, metrics: n.registry,
	})
	if err != nil {
		return err
	}
	n.shop.Store(s)
	n.toShop.set(proxy.LocalTransport(s.api))
	return nil
}

// configured is a room as the file has it now.
func (n *node) configured(id string) (config.Room, bool) {
	rm := n.liveRoom(id)
	if rm == nil {
		return config.Room{}, false
	}
	return *rm.cfg.Load(), true
}

func (n *node) liveRoom(id string) *room {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rooms[id]
}

func (n *node) ended(id, session string) bool {
	rm := n.liveRoom(id)
	return rm == nil || rm.line.Ended(session)
}

// leave ends a session, so that its slot goes to the next in line. A room that is no more has no slots.
func (n *node) leave(ctx context.Context, id string, s slots.Session) error {
	rm := n.liveRoom(id)
	if rm == nil {
		return nil
	}
	_, err := rm.line.Leave(ctx, s.Place, s.Expires)
	return err
}

// errNoShop refuses a configuration that needs what is only made at the start.
var errNoShop = errors.New("upstream: booking is new in the file, and the booking core is opened only when Ropeline starts: start it anew")

// shopPaths is what the edge must know of the booking core.
type shopPaths struct{ *node }

// Owns reports whether a path is one of the core's API.
func (p shopPaths) Owns(rawPath string) bool { return api.Owns(rawPath) }

// Room is the waiting room of the event that a path names, or of the event of the hold that it names; "" if it has none or
// isn't known.
func (p shopPaths) Room(id string) string {
	s := p.shop.Load()
	if s == nil {
		return ""
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && n > 0 {
		return s.roomOf(n)
	}
	hold, err := uuid.Parse(id)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	event, err := s.core.EventOf(ctx, hold)
	if err != nil {
		return ""
	}
	return s.roomOf(event)
}

// roomAnswer is the room of an event as it was known at a time: also that nothing was.
type roomAnswer struct {
	room string
	at   time.Time
}

// roomAge is how long an answer is good: visitors ask as often as they like about events that don't exist.
const roomAge = 2 * time.Second

func (s *shop) roomOf(event int64) string {
	if a, ok := s.rooms.Get(event); ok && time.Since(a.at) < roomAge {
		return a.room
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a := roomAnswer{at: time.Now()}
	if e, err := s.core.Event(ctx, event); err == nil && len(e.Rooms) > 0 {
		a.room = e.Rooms[0]
	}
	s.rooms.Put(event, a)
	return a.room
}

// serveSales answers GET /admin/v1/booking.
func (n *node) serveSales(w http.ResponseWriter, r *http.Request) {
	s := n.shop.Load()
	if s == nil {
		http.Error(w, "there is no booking core here, or it waits for Postgres", http.StatusNotFound)
		return
	}
	s.serveSales(w, r)
}
