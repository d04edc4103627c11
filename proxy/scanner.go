package proxy

import "bytes"

// maxFields is how many header fields a request may have, those of a trailer included.
const maxFields = 200

// scanner follows one connection's requests.
type scanner struct {
	h2c     bool // an HTTP/2 preface is welcome
	state   scanState
	line    []byte // the beginning of a line whose end has not come yet
	left    uint64 // bytes left of a body or chunk; of a chunk's CRLF, 2 or 1
	ended   int64  // requests that have come to their end
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
	*s = scanner{h2c: s.h2c, ended: s.ended + 1, line: s.line}
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
	case s.h2c && s.ended == 0 && string(p) == "PRI * HTTP/2.0":
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
