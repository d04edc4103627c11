package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
)

// showCore is a booking core as far as the edge sees it. It says what it was asked, as [showSite] does. Whatever a careless
// reader could take for a path of holds it serves only to the visitor of a valid token, which it verifies itself.
type showCore struct {
	showSite
	h     *house
	holds atomic.Int64 // served
	owns  func(rawPath string) bool

	mu     sync.Mutex
	rooms  map[string]string // by id
	looked []string          // ids that were asked for
	wild   []string          // what came along although no token was valid
}

// coreURL is its address.
func coreURL() *url.URL { return &url.URL{Scheme: coreScheme, Host: "core"} }

func newShowCore() *showCore { return &showCore{owns: ownsSome, rooms: map[string]string{}} }

// ownsSome owns [/v1]/events/{digits}/... but the queue's, /holds/... and /orders/..., in this spelling only.
func ownsSome(rawPath string) bool {
	segments := strings.Split(strings.TrimPrefix(withoutVersion(rawPath), "/"), "/")
	for _, s := range segments {
		if !plainSegment(s) {
			return false
		}
	}
	switch segments[0] {
	case "events":
		return len(segments) > 2 && strings.Trim(segments[1], "0123456789") == "" && segments[2] != "queue" && segments[2] != "status"
	case "holds", "orders":
		return len(segments) > 1
	}
	return false
}

func (c *showCore) Owns(rawPath string) bool { return c.owns(rawPath) }

func (c *showCore) Room(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = append(c.looked, id)
	return c.rooms[id]
}

// leadsTo has an id lead to a room.
func (c *showCore) leadsTo(id, room string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rooms[id] = room
}

func (c *showCore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	claims, err := c.h.tokens.Verify(r.Header.Get(roomHeader), r.Header.Get(tokenHeader))
	if err != nil || claims.Visitor != r.Header.Get(visitorHeader) || claims.ID != r.Header.Get(sessionHeader) {
		for name, values := range r.Header {
			if ours(name) {
				c.mu.Lock()
				c.wild = append(c.wild, fmt.Sprint(r.Method, " ", r.RequestURI, ": ", name, " ", values))
				c.mu.Unlock()
			}
		}
		err = fmt.Errorf("not admitted: %w", errCustomer)
	}
	read := strings.ToLower(path.Clean(strings.ReplaceAll(decode(decode(r.URL.Path)), `\`, "/")))
	if strings.Contains(read, "holds") {
		if err != nil {
			c.asked.Add(1)
			http.Error(w, "the core says: not admitted", http.StatusForbidden)
			return
		}
		c.holds.Add(1)
	}
	c.serve(w, r)
}

// unproven is what the core was told of visitors without a valid token: nothing, if all is well.
func (c *showCore) unproven() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wild
}

// lookups are the ids that Room was asked for since the last call.
func (c *showCore) lookups() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.looked
	c.looked = nil
	return all
}

// coreRoom is a room in front of the booking core.
func coreRoom(host string) Room {
	rm := roomOn(host)
	rm.Upstream = coreURL()
	return rm
}
