package proxy

import (
	"bytes"
	"strings"
	"testing"
)

// scanWhole feeds s in pieces of the given size and returns the offset of the fault, or -1.
func scanWhole(s *scanner, stream []byte, piece int) int {
	for at := 0; at < len(stream); at += piece {
		if bad := s.next(stream[at:min(at+piece, len(stream))]); bad >= 0 {
			return at + bad
		}
	}
	return -1
}

// strictStreams: a stream, and the byte in it that breaks the rules ("" for none): the first after the text.
var strictStreams = []struct{ name, good, rest string }{
	{"plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\n\n x\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=\"b\"\r\n\n\n\n\n\n\r\nA  \r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n", ""},
	{"empty line between", "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", ""},
	{"bare LF in request line", "GET / HTTP/1.1", "\nHost: a\r\n\r\n"},
	{"bare LF in field", "GET / HTTP/1.1\r\nHost: a", "\n\r\n"},
	{"bare LF at head's end", "GET / HTTP/1.1\r\nHost: a\r\n", "\n"},
	{"folded", "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r", "\n\r\n"},
	{"folded at first field", "GET / HTTP/1.1\r\n\tHost: a\r", "\n\r\n"},
	{"CR inside", "GET / HTTP/1.1\r\nX: a\rb\r", "\n\r\n"},
	{"length then chunked", "POST / HTTP/1.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r", "\n\r\n"},
	{"chunked then length", "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 6\r", "\n\r\n"},
	{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r", "\n\r\n"},
	{"signed length", "POST / HTTP/1.1\r\nContent-Length: +2\r", "\n\r\n"},
	{"no length", "POST / HTTP/1.1\r\nContent-Length:\r", "\n\r\n"},
	{"huge length", "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r", "\n\r\n"},
	{"odd coding", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r", "\n\r\n"},
	{"HTTP/1.0 chunked", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r", "\n\r\n"},
	{"chunk size 0x1", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r", "\na\r\n"},
	{"chunk size -1", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r", "\na\r\n"},
	{"chunk size empty", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r", "\na\r\n"},
	{"chunk size bare LF", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1", "\na\r\n"},
	{"chunk extension bare LF", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a", "\nb\r\na\r\n"},
	{"chunk longer than said", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na", "b\r\n"},
	{"folded trailer", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r", "\n\r\n"},
	{"second request", "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1", "\n\r\n"},
	{"after a body", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1", "\n\r\n"},
}

func TestScanner_FindsTheFirstByteThatBreaksTheRules(t *testing.T) {
	for _, c := range strictStreams {
		want := -1
		if c.rest != "" {
			want = len(c.good)
		}
		for _, piece := range []int{1, 2, 3, 7, 64, 1 << 20} {
			if got := scanWhole(&scanner{h2c: true}, []byte(c.good+c.rest), piece); got != want {
				t.Errorf("%s in pieces of %d: got %d, want %d", c.name, piece, got, want)
			}
		}
	}
}

func TestScanner_StandsAsideForHTTP2OnlyAtTheStartAndWhereItIsWelcome(t *testing.T) {
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\n"
	if got := scanWhole(&scanner{h2c: true}, []byte(preface), 5); got != -1 {
		t.Errorf("preface: fault at %d", got)
	}
	if got := scanWhole(&scanner{}, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nX\n"), 5); got == -1 {
		t.Error("preface where it is not welcome: nothing after it was read")
	}
	if got := scanWhole(&scanner{h2c: true}, []byte("GET / HTTP/1.1\r\n\r\nPRI * HTTP/2.0\r\n\r\nX\n"), 5); got == -1 {
		t.Error("preface as second request: nothing after it was read")
	}
}

func TestScanner_CountsFields(t *testing.T) {
	s := scanner{}
	if got := scanWhole(&s, []byte("GET / HTTP/1.1\r\n"+strings.Repeat("a: b\r\n", maxFields)+"\r\n"), 100); got != -1 {
		t.Errorf("%d fields: fault at %d", maxFields, got)
	}
	if got := scanWhole(&s, []byte("GET / HTTP/1.1\r\n"+strings.Repeat("a: b\r\n", maxFields+1)+"\r\n"), 100); got == -1 || !s.tooMany {
		t.Errorf("%d fields: no fault", maxFields+1)
	}
}

// FuzzScanner: how the bytes arrive must not matter, and no input may hang or panic it.
func FuzzScanner(f *testing.F) {
	for _, c := range strictStreams {
		f.Add([]byte(c.good+c.rest), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		whole := scanWhole(&scanner{h2c: true}, stream, len(stream)+1)
		if got := scanWhole(&scanner{h2c: true}, stream, int(piece)+1); got != whole && len(stream) < maxCarried {
			t.Fatalf("in pieces of %d the fault is at %d, at once at %d", int(piece)+1, got, whole)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	var request bytes.Buffer
	request.WriteString("GET /events/spring-tour/seats?row=12 HTTP/1.1\r\nHost: tickets.example.com\r\n")
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Referer", "User-Agent", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Cache-Control", "If-None-Match"} {
		request.WriteString(name + ": some value of an ordinary length, as browsers send it\r\n")
	}
	request.WriteString("\r\n")
	s := scanner{}
	b.SetBytes(int64(request.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if s.next(request.Bytes()) >= 0 {
			b.Fatal("fault")
		}
	}
}
