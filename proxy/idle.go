package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// guarded bounds the time a request's bodies may stand still. A deadline is set before each read and write
// and moves with every byte in either direction, so a long upload, download or stream lives while it moves,
// and a client that stops does not hold anything.
//
// Over HTTP/1 the write deadline stays on until the server has flushed the end of the answer. Over HTTP/2
// a deadline that passes ends the stream even if nobody is writing, so a timer sets one only when a write
// has hung too long.
//
// Over HTTP/1 it also decides what becomes of a body that is not read when the answer begins. If all of it is here the
// server takes it out of the way and keeps the connection. Otherwise nobody knows when it comes: the answer goes out at once
// and says that the connection closes, and the connection is closed with patience (see [strictConn.Close]).
type guarded struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	http2   bool
	body    *guardedBody // nil: none
	began   bool         // the status is out
	written time.Time    // when the write deadline was set last
	hung    *time.Timer
}

// guard wraps w and the body of r. The request is copied for it: the server looks at its own to see whether
// a 100 Continue is still owed.
func guard(w http.ResponseWriter, r *http.Request, idle time.Duration) (*guarded, *http.Request) {
	g := &guarded{ResponseWriter: w, control: http.NewResponseController(w), idle: idle, http2: r.ProtoMajor > 1}
	conn, _ := r.Context().Value(connKey{}).(*strictConn)
	if conn != nil && !g.http2 {
		conn.given++
	}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		g.body = &guardedBody{ReadCloser: r.Body, control: g.control, idle: idle, http2: g.http2}
		g.body.still.L = &g.body.mu
		if conn != nil && !g.http2 {
			g.body.conn, g.body.number = conn, conn.given
		}
		g.body.arm(time.Now()) // the server itself reads what a handler leaves
		r = r.WithContext(r.Context())
		r.Body = g.body
	}
	return g, r
}

func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// WriteHeader says with the status whether the connection closes.
func (g *guarded) WriteHeader(status int) {
	if status >= 200 {
		g.begin()
	}
	g.ResponseWriter.WriteHeader(status)
}

// begin is called before the answer's header goes out.
func (g *guarded) begin() {
	if !g.began {
		g.began = true
		if !g.http2 && g.body != nil && !g.body.here() {
			g.Header().Set("Connection", "close")
		}
	}
}

func (g *guarded) Write(p []byte) (int, error) {
	g.begin()
	g.before()
	defer g.after()
	return g.ResponseWriter.Write(p)
}

// Flush makes a [http.Flusher] of it.
func (g *guarded) Flush() { _ = g.FlushError() }

// FlushError is what [http.ResponseController.Flush] calls.
func (g *guarded) FlushError() error {
	g.begin()
	g.before()
	defer g.after()
	return g.control.Flush()
}

func (g *guarded) before() {
	now := time.Now()
	if g.body != nil {
		g.body.progress(now)
	}
	switch {
	case !g.http2:
		if now.Sub(g.written) > g.idle/8 {
			g.written = now
			_ = g.control.SetWriteDeadline(now.Add(g.idle))
		}
	case g.hung == nil:
		g.hung = time.AfterFunc(g.idle, func() { _ = g.control.SetWriteDeadline(longAgo) })
	default:
		g.hung.Reset(g.idle)
	}
}

func (g *guarded) after() {
	if g.http2 {
		g.hung.Stop()
	}
}

// finish gives the server time for the last flush, and ends the body: no read outlives the handler.
func (g *guarded) finish() {
	if g.http2 {
		return
	}
	g.begin()
	_ = g.control.SetWriteDeadline(time.Now().Add(g.idle))
	if g.body != nil {
		g.body.finish()
	}
}

var longAgo = time.Unix(1, 0)

// guardedBody is a request body with a deadline on every read.
type guardedBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	http2   bool
	conn    *strictConn // nil: HTTP/2, or no connection of ours
	number  int64       // which of conn's requests it is of

	mu      sync.Mutex
	still   sync.Cond // reading has become false
	armed   time.Time // when the deadline was set last
	reading bool
	ended   bool
	closed  bool
}

// here reports whether no read can block: everything up to the end was read from the connection, if not from the body.
func (b *guardedBody) here() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hereLocked()
}

func (b *guardedBody) hereLocked() bool {
	return b.ended || b.conn != nil && b.conn.ended.Load() >= b.number
}

func (b *guardedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	b.reading = true
	b.arm(time.Now())
	b.mu.Unlock()

	n, err := b.ReadCloser.Read(p)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.still.Broadcast()
	b.ended = b.ended || err == io.EOF
	if err == io.EOF && !b.closed {
		// The server now reads ahead to see the client leave; a deadline would look like that.
		_ = b.control.SetReadDeadline(time.Time{})
		b.armed = time.Now().Add(b.idle) // keeps progress from setting it again
	}
	return n, err
}

// progress counts a byte of the answer as a sign of life for a read under way.
func (b *guardedBody) progress(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading && !b.closed {
		b.arm(now)
	}
}

// arm sets the deadline anew once an eighth of it has gone.
func (b *guardedBody) arm(now time.Time) {
	if now.Sub(b.armed) > b.idle/8 {
		b.armed = now
		_ = b.control.SetReadDeadline(now.Add(b.idle))
	}
}

// Close ends a read under way. Over HTTP/1 the server's own Close is left to finish: it may wait for the rest of the body,
// and would keep the answer waiting, too.
func (b *guardedBody) Close() error {
	b.mu.Lock()
	b.close()
	b.mu.Unlock()
	if b.http2 {
		return b.ReadCloser.Close()
	}
	return nil
}

// close does not touch a body that is here: the read under way may have become the server's own, which looks whether the
// client leaves, and a deadline would look like that.
func (b *guardedBody) close() {
	b.closed = true
	if b.reading && !b.hereLocked() {
		_ = b.control.SetReadDeadline(longAgo)
	}
}

// finish ends an HTTP/1 body with its handler. Until go1.27 the server itself must not come to a body's end after the
// handler if it keeps the connection and full duplex is on: it panics (go.dev/issue/68560), and [httputil.ReverseProxy]
// does not close the body.
func (b *guardedBody) finish() {
	b.mu.Lock()
	here := b.hereLocked()
	if !here && b.conn != nil {
		b.conn.turnDeaf()
	}
	b.close()
	for b.reading {
		b.still.Wait()
	}
	b.mu.Unlock()
	if here {
		_ = b.ReadCloser.Close()
	}
}
