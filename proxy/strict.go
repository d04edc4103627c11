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
}

// poisoned breaks whatever it comes in the middle of: a NUL and a bare LF for request lines, chunk sizes and
// the ends of chunks, then a line without a colon for heads and trailers, which it ends.
var poisoned = []byte("\x00\n\x00\r\n\r\n")

func (c *strictConn) Read(p []byte) (int, error) {
	if c.refused {
		return c.readPoison(p)
	}
	n, err := c.Conn.Read(p)
	if c.off {
		return n, err
	}
	if bad := c.scan.next(p[:n]); bad >= 0 {
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

// CloseWrite tells the client that no more comes.
func (c *strictConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close lets a client that was refused read why: closing with bytes unread would reset the connection and
// could take the answer with it.
func (c *strictConn) Close() error {
	if c.refused && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		_, _ = io.CopyN(io.Discard, c.Conn, 64<<10)
	}
	err := c.Conn.Close()
	if c.release != nil {
		c.release()
	}
	return err
}
