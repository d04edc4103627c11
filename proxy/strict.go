package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// strictConn reads HTTP/1 the way RFC 9112 writes it. Go's server forgives what other readers take differently:
// folded lines, lines that end in a bare LF, Content-Length together with Transfer-Encoding. strictConn follows
// the bytes as they come and, where one breaks the rules, puts in its place bytes that the server refuses with
// 400 (431 for too many fields) and closes on; nothing of the client's after that byte is read. So the server
// still writes every answer, in order, and an error here can refuse a request but never let one through
// that the server would refuse.
//
// It knows where heads and bodies begin by the same framing as the server, so it costs one search for a line
// end per header line, and one addition per read of a body.
type strictConn struct {
	net.Conn
	scan    scanner
	off     bool   // no HTTP/1 here: an upgraded connection or HTTP/2
	poison  []byte // what to read next instead of the client's bytes
	refused bool   // poisoned: after poison comes EOF
	flood   bool   // instead of EOF: a header line without end
	release func() // gives the place in the connection limit back; nil: none

	deadline atomic.Int64 // of reads, Unix seconds; 0: none
	given    int64        // requests that a handler got; for the goroutine that serves alone
	ended    atomic.Int64 // requests that were read to their end
	deaf     atomic.Bool  // the last answer is given and closes: what still comes is not for the server
	parted   atomic.Bool  // somebody closes
	hurry    *atomic.Bool // true: no lingering; nil: never
}

// poisoned breaks whatever it comes in the middle of: a NUL and a bare LF for request lines, chunk sizes and
// the ends of chunks, then a line without a colon for heads and trailers, which it ends.
var poisoned = []byte("\x00\n\x00\r\n\r\n")

func (c *strictConn) Read(p []byte) (int, error) {
	if c.deaf.Load() {
		return 0, io.EOF
	}
	if c.refused {
		return c.readPoison(p)
	}
	n, err := c.Conn.Read(p)
	if c.off {
		return n, err
	}
	bad := c.scan.next(p[:n])
	c.ended.Store(c.scan.ended)
	if bad >= 0 {
		c.refused, c.flood, c.poison = true, c.scan.tooMany, poisoned
		if bad == 0 {
			return c.readPoison(p)
		}
		return bad, nil
	}
	c.off = c.scan.state == inOther
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.scan.midHead() && c.deadline.Load() > longAgo.Unix() {
		c.answerTimeout()
	}
	return n, err
}

// SetReadDeadline remembers the deadline: the server sets one long ago to interrupt a read, which is no
// timeout of the client's.
func (c *strictConn) SetReadDeadline(t time.Time) error {
	c.deadline.Store(max(0, t.Unix()))
	return c.Conn.SetReadDeadline(t)
}

func (c *strictConn) readPoison(p []byte) (int, error) {
	if c.flood {
		for i := range p {
			p[i] = 'a'
		}
		return len(p), nil
	}
	if len(c.poison) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.poison)
	c.poison = c.poison[n:]
	return n, nil
}

// answerTimeout tells a client that did not finish its request head in time. The server says nothing, and has
// nothing else under way: it reads a head only after the answer before it.
func (c *strictConn) answerTimeout() {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c.Conn, "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n408 Request Timeout")
}

// stop ends the reading along; to be called between reads.
func (c *strictConn) stop() { c.off = true }

// strict is what the server's hooks know a strictConn by.
func (c *strictConn) strict() *strictConn { return c }

// turnDeaf has the server find an end where a body was to come that no handler wants, so that it does not wait for it.
// Only for a connection that closes after this answer: from here on Close reads alone.
func (c *strictConn) turnDeaf() { c.deaf.Store(true) }

// How long to linger, which is nginx's measure (lingering_timeout and lingering_time).
const (
	lingerIdle = 5 * time.Second  // without a byte
	lingerMost = 30 * time.Second // in all
	lingerBad  = 500 * time.Millisecond
)

// CloseWrite tells the client that no more comes. The server calls it before it closes on a body that is still coming, so
// it lingers: see Close.
func (c *strictConn) CloseWrite() error {
	if c.deaf.Load() && c.parted.CompareAndSwap(false, true) {
		return c.linger(lingerMost)
	}
	return c.closeWrite()
}

func (c *strictConn) closeWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close lets a client that was refused, or answered in the midst of its body, read why: closing with bytes unread would
// reset the connection and could take the answer with it (RFC 9112, 9.6). A second Close is one at once.
func (c *strictConn) Close() error {
	if c.parted.CompareAndSwap(false, true) {
		switch {
		case c.refused:
			_ = c.linger(lingerBad)
		case c.deaf.Load():
			_ = c.linger(lingerMost)
		}
	}
	err := c.Conn.Close()
	if c.release != nil {
		c.release()
	}
	return err
}

// linger says that no more comes, and throws away what does until the client closes, too.
func (c *strictConn) linger(most time.Duration) error {
	if c.hurry != nil && c.hurry.Load() {
		return nil
	}
	if err := c.closeWrite(); err != nil {
		return err
	}
	buf := buffers{}.Get()
	defer buffers{}.Put(buf)
	for end := time.Now().Add(most); ; {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		_ = c.SetReadDeadline(time.Now().Add(min(left, lingerIdle)))
		if _, err := c.Conn.Read(buf); err != nil {
			return nil
		}
	}
}
