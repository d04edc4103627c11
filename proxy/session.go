package proxy

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"

	"ropeline/internal/recent"
)

// sessions remembers the newest token of sessions that this node has lengthened, for requests that still bring the one
// before, and lets one request at a time lengthen a session.
type sessions struct {
	newest *recent.Cache[sessionKey, *visit]
	flight *singleflight.Group
}

type sessionKey struct{ room, id string }

func newSessions() sessions {
	return sessions{newest: recent.New[sessionKey, *visit](65536), flight: &singleflight.Group{}}
}

func (s sessions) get(room, id string) (*visit, bool) { return s.newest.Get(sessionKey{room, id}) }

func (s sessions) put(room string, v *visit) { s.newest.Put(sessionKey{room, v.ID}, v) }

func (s sessions) once(room, id string, do func() (*visit, error)) (*visit, error) {
	got, err, _ := s.flight.Do(room+" "+id, func() (any, error) { return do() })
	if err != nil {
		return nil, err
	}
	copied := *got.(*visit)
	return &copied, nil
}

// watch returns a channel that is closed when the session id ends early. stop must be called.
func (r *room) watch(ctx context.Context, id string) (ended <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			changed := r.Line.EndedChanged()
			if r.Line.Ended(id) {
				close(over)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return over, func() { cancel(); <-done }
}

// Cookies. The access cookie goes to the whole host, the place cookie only to the queue API.
const (
	secureCookiePrefix = "__Host-"
	placeCookiePath    = "/_ropeline/"
)

func accessCookie(room string) string { return "ropeline_" + room }

func placeCookie(room string) string { return "ropeline_place_" + room }

func (v *visit) cookie(tls bool) *http.Cookie {
	c := accessCookieOf(v.room.id(), tls)
	c.Value = v.token
	c.MaxAge = max(1, int(v.Expires.Sub(v.room.Line.Now())/time.Second))
	return c
}

func accessCookieOf(room string, tls bool) *http.Cookie {
	c := &http.Cookie{Name: accessCookie(room), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: tls}
	if tls {
		c.Name = secureCookiePrefix + c.Name
	}
	return c
}

func placeCookieOf(room, path string, tls bool) *http.Cookie {
	return &http.Cookie{Name: placeCookie(room), Path: path, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: tls}
}

// placePaths are where a client needs its place cookie: at the queue API, and where else that was asked.
func (q *request) placePaths() []string {
	if q.queuePath == "" {
		return []string{placeCookiePath}
	}
	return []string{placeCookiePath, q.queuePath}
}

// noCookies takes the cookies of a room back.
func (q *request) noCookies(rm *room) []*http.Cookie {
	cookies := []*http.Cookie{accessCookieOf(rm.id(), q.client.TLS)}
	for _, path := range q.placePaths() {
		cookies = append(cookies, placeCookieOf(rm.id(), path, q.client.TLS))
	}
	for _, c := range cookies {
		c.MaxAge = -1
	}
	return cookies
}
