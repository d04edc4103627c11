package proxy

import (
	"bufio"
	"errors"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
)

// keepOnlyWebSocket drops every request to change protocols but a proper one for websocket, and reports
// whether there was one. What is dropped goes on as an ordinary request.
func keepOnlyWebSocket(r *http.Request) bool {
	asked := r.Header["Upgrade"]
	if len(asked) == 0 {
		return false
	}
	if r.ProtoMajor == 1 && r.Method == http.MethodGet && r.ContentLength == 0 && len(r.TransferEncoding) == 0 &&
		len(asked) == 1 && strings.EqualFold(asked[0], "websocket") && nominates(r.Header, "upgrade") {
		return true
	}
	delete(r.Header, "Upgrade")
	return false
}

// nominates reports whether Connection names a header.
func nominates(h http.Header, name string) bool {
	for _, v := range h["Connection"] {
		for item := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(item), name) {
				return true
			}
		}
	}
	return false
}

func eventStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}

// Hijack hands out the client's connection for an upgrade; from here on its bytes are not HTTP.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	a.restore()
	if strict, ok := conn.(interface{ stop() }); ok {
		strict.stop()
	}
	s := &socket{Conn: conn, early: rw.Reader, all: &a.up.long}
	s.tenure = s.all.begin(a.ex.pass, func() { _ = conn.Close() })
	return s, rw, nil
}

// socket is the client's side of an upgraded connection.
type socket struct {
	net.Conn
	early  *bufio.Reader // may hold what the client sent right behind its request
	all    *lasting
	tenure *tenure
	once   sync.Once
}

func (s *socket) Read(p []byte) (int, error) {
	if s.early != nil {
		if n := s.early.Buffered(); n > 0 {
			return s.early.Read(p[:min(n, len(p))])
		}
		s.early = nil
	}
	return s.Conn.Read(p)
}

func (s *socket) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (s *socket) Close() error {
	err := s.Conn.Close()
	s.once.Do(func() { s.all.over(s.tenure) })
	return err
}
