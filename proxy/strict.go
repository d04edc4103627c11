package proxy

import (
	"bytes"
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

// maxFields is how many header fields a request may have, those of a trailer included.
const maxFields = 200

// scanner follows one connection's requests.
type scanner struct {
	h2c     bool // an HTTP/2 preface is welcome
	state   scanState
	line    []byte // the beginning of a line whose end has not come yet
	left    uint64 // bytes left of a body or chunk; of a chunk's CRLF, 2 or 1
	served  bool   // not the first request of the connection
	tooMany bool   // the fault is the number of fields

	fields  int
	old     bool // HTTP/1.0
	length  bool // Content-Length came
	chunked bool // Transfer-Encoding came
}

type scanState uint8

const (
	inRequestLine scanState = iota
	inHead
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
	inOther
)

// midHead reports whether a request head has begun and not ended.
func (s *scanner) midHead() bool {
	return s.state == inHead || s.state == inRequestLine && len(s.line) > 0
}

// next takes the bytes that were read and returns the index of the one that breaks the rules, or -1.
func (s *scanner) next(p []byte) int {
	for i := 0; i < len(p); {
		switch s.state {
		case inOther:
			return -1
		case inBody, inChunk:
			n := min(s.left, uint64(len(p)-i))
			s.left -= n
			i += int(n)
			if s.left == 0 {
				s.bodyEnded()
			}
		case inChunkEnd:
			if p[i] != "\n\r"[s.left-1] {
				return i
			}
			i++
			if s.left--; s.left == 0 {
				s.state = inChunkSize
			}
		default:
			end := bytes.IndexByte(p[i:], '\n')
			if end < 0 {
				return s.carry(p[i:], i)
			}
			if !s.takeLine(p[i : i+end]) {
				return i + end
			}
			i += end + 1
		}
	}
	return -1
}

func (s *scanner) bodyEnded() {
	if s.state == inChunk {
		s.state, s.left = inChunkEnd, 2
		return
	}
	s.requestEnded()
}

func (s *scanner) requestEnded() {
	*s = scanner{h2c: s.h2c, served: true, line: s.line}
}

// maxCarried bounds what is kept of an unfinished line; the server's own limit on heads is below it.
const maxCarried = 64 << 10

func (s *scanner) carry(p []byte, at int) int {
	if len(s.line)+len(p) > maxCarried {
		s.tooMany = s.state != inChunkSize
		return at
	}
	s.line = append(s.line, p...)
	return -1
}

// takeLine judges a line without its LF, whose beginning may have come earlier.
func (s *scanner) takeLine(p []byte) bool {
	if len(s.line) > 0 {
		s.line = append(s.line, p...)
		p = s.line
		if cap(s.line) > 4<<10 {
			s.line = nil
		} else {
			s.line = s.line[:0]
		}
	}
	if len(p) == 0 || bytes.IndexByte(p, '\r') != len(p)-1 {
		return false // bare LF, or a CR inside
	}
	p = p[:len(p)-1]
	switch s.state {
	case inRequestLine:
		return s.requestLine(p)
	case inChunkSize:
		return s.chunkSize(p)
	}
	if len(p) == 0 {
		return s.headEnded()
	}
	if s.fields++; s.fields > maxFields {
		s.tooMany = true
		return false
	}
	if p[0] == ' ' || p[0] == '\t' {
		return false // folded
	}
	return s.state == inTrailer || s.field(p)
}

func (s *scanner) requestLine(p []byte) bool {
	switch {
	case len(p) == 0:
		return true // an empty line between requests: the server decides
	case s.h2c && !s.served && string(p) == "PRI * HTTP/2.0":
		s.state = inOther
		return true
	}
	s.old = bytes.HasSuffix(p, []byte("HTTP/1.0"))
	s.state = inHead
	return true
}

// field looks for what says how long the body is: one plain number, or chunked, not both, not twice.
func (s *scanner) field(p []byte) bool {
	if first := p[0] | 0x20; first != 'c' && first != 't' {
		return true
	}
	name, value, _ := bytes.Cut(p, []byte(":"))
	switch {
	case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
		n, ok := number(bytes.Trim(value, " \t"), 10)
		if !ok || s.length || s.chunked {
			return false
		}
		s.length, s.left = true, n
	case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if s.old || s.length || s.chunked || !bytes.EqualFold(bytes.Trim(value, " \t"), []byte("chunked")) {
			return false
		}
		s.chunked = true
	}
	return true
}

func (s *scanner) headEnded() bool {
	switch {
	case s.state == inTrailer:
		s.requestEnded()
	case s.chunked:
		s.state = inChunkSize
	case s.left > 0:
		s.state = inBody
	default:
		s.requestEnded()
	}
	return true
}

func (s *scanner) chunkSize(p []byte) bool {
	size, _, _ := bytes.Cut(bytes.TrimRight(p, " \t"), []byte(";"))
	n, ok := number(size, 16)
	if !ok {
		return false
	}
	if s.left, s.state = n, inChunk; n == 0 {
		s.state = inTrailer
	}
	return true
}

// number reads digits and nothing else, up to 2^60.
func number(digits []byte, base uint64) (uint64, bool) {
	if len(digits) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if !ishex(c) || base == 10 && c > '9' || n >= 1<<56 {
			return 0, false
		}
		n = n*base + uint64(unhex(c))
	}
	return n, true
}
