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
type guarded struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	http2   bool
	body    *guardedBody // nil: none
	written time.Time    // when the write deadline was set last
	hung    *time.Timer
}

// guard wraps w and the body of r. The request is copied for it: the server looks at its own to see whether
// a 100 Continue is still owed.
func guard(w http.ResponseWriter, r *http.Request, idle time.Duration) (*guarded, *http.Request) {
	g := &guarded{ResponseWriter: w, control: http.NewResponseController(w), idle: idle, http2: r.ProtoMajor > 1}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		g.body = &guardedBody{ReadCloser: r.Body, control: g.control, idle: idle}
		g.body.arm(time.Now()) // the server itself reads what a handler leaves
		r = r.WithContext(r.Context())
		r.Body = g.body
	}
	return g, r
}

func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

func (g *guarded) Write(p []byte) (int, error) {
	g.before()
	defer g.after()
	return g.ResponseWriter.Write(p)
}

// Flush makes a [http.Flusher] of it.
func (g *guarded) Flush() { _ = g.FlushError() }

// FlushError is what [http.ResponseController.Flush] calls.
func (g *guarded) FlushError() error {
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

// finish gives the server time for the last flush.
func (g *guarded) finish() {
	if !g.http2 {
		_ = g.control.SetWriteDeadline(time.Now().Add(g.idle))
	}
}

var longAgo = time.Unix(1, 0)

// guardedBody is a request body with a deadline on every read.
type guardedBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration

	mu      sync.Mutex
	armed   time.Time // when the deadline was set last
	reading bool
	closed  bool
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

// Close ends a read under way, which the server's own Close would wait for.
func (b *guardedBody) Close() error {
	b.mu.Lock()
	b.closed = true
	if b.reading {
		_ = b.control.SetReadDeadline(longAgo)
	}
	b.mu.Unlock()
	return b.ReadCloser.Close()
}
