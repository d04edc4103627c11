package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawHTTP2 opens an HTTP/2 connection without TLS whose frames are written by hand.
func rawHTTP2(t *testing.T, s *stand) *http2.Framer {
	t.Helper()
	c := dialRaw(t, s.addr)
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// sendFields opens a stream with header fields as they are given, bad ones included.
func sendFields(t *testing.T, f *http2.Framer, stream uint32, fields ...string) {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// outcome reads on until the stream is answered or refused: a status, or "reset".
func outcome(t *testing.T, f *http2.Framer, stream uint32) string {
	t.Helper()
	dec := hpack.NewDecoder(4096, nil)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return "reset"
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			fields, err := dec.DecodeFull(frame.HeaderBlockFragment())
			if err != nil {
				t.Fatal(err)
			}
			if frame.StreamID == stream {
				return fields[0].Value
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return "reset"
			}
		case *http2.GoAwayFrame:
			return "reset"
		}
	}
}

func TestHTTP2_NothingCanBeSmuggledIntoHTTP1(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{routes: []Route{{Room: "r", Paths: []string{"/tickets/"}}}})
	plain := []string{":method", "GET", ":scheme", "http", ":authority", "a.test", ":path", "/"}
	with := func(extra ...string) []string { return append(append([]string{}, plain...), extra...) }
	at := func(path string) []string {
		return []string{":method", "GET", ":scheme", "http", ":authority", "a.test", ":path", path}
	}
	for name, fields := range map[string][]string{
		"CRLF in a value":       with("x-a", "b\r\nX-Ropeline-Visitor: evil"),
		"LF in a value":         with("x-a", "b\nX-Ropeline-Visitor: evil"),
		"CRLF in a name":        with("x-a: b\r\nx-b", "c"),
		"upper case name":       with("X-A", "b"),
		"space in the path":     at("/ HTTP/1.1\r\nX: y"),
		"absolute form":         at("http://evil.test/tickets/1"),
		"two slashes":           at("//tickets/1"),
		"asterisk":              at("*"),
		"empty path":            at(""),
		"protected":             at("/tickets/1"),
		"ambiguous":             at("/x/%2e%2e/tickets/1"),
		"CONNECT":               {":method", "CONNECT", ":authority", "internal:22"},
		"TRACE":                 {":method", "TRACE", ":scheme", "http", ":authority", "a.test", ":path", "/"},
		"method with a space":   {":method", "GET /x", ":scheme", "http", ":authority", "a.test", ":path", "/"},
		"no authority":          {":method", "GET", ":scheme", "http", ":path", "/"},
		"user in the authority": {":method", "GET", ":scheme", "http", ":authority", "a@a.test", ":path", "/"},
		"CRLF in the authority": {":method", "GET", ":scheme", "http", ":authority", "a.test\r\nX: y", ":path", "/"},
		"authority is not host": with("host", "b.test"),
		"transfer-encoding":     with("transfer-encoding", "chunked"),
		"expectation":           with("expect", "y 100-continue"),
	} {
		f := rawHTTP2(t, s)
		sendFields(t, f, 1, fields...)
		got := outcome(t, f, 1)
		if head := rec.taken(); head != "" || got == "200" {
			t.Errorf("%s: answered %s; the site saw %q", name, got, head)
		}
	}
	f := rawHTTP2(t, s)
	sendFields(t, f, 1, with("cookie", "a=1", "cookie", "ropeline_x=evil", "x-ropeline-visitor", "evil")...)
	if got := outcome(t, f, 1); got != "200" {
		t.Errorf("a plain request: answered %s", got)
	}
	if head := rec.taken(); !strings.Contains(head, "a=1") || strings.Contains(head, "evil") {
		t.Errorf("a plain request: the site saw %q", head)
	}
}

func TestHTTP2_ConnectionFieldsAreNotForwarded(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{})
	for _, field := range []string{"connection", "upgrade", "keep-alive", "proxy-connection"} {
		f := rawHTTP2(t, s)
		sendFields(t, f, 1, ":method", "GET", ":scheme", "http", ":authority", "a.test", ":path", "/", field, "h2c")
		outcome(t, f, 1)
		if head := strings.ToLower(rec.taken()); strings.Contains(head, field+": h2c") {
			t.Errorf("%s reached the site: %q", field, head)
		}
	}
}

// TestHTTP2_RapidResetsDoNotOverrunTheSite opens and cancels streams as fast as it can.
func TestHTTP2_RapidResetsDoNotOverrunTheSite(t *testing.T) {
	var running, peak atomic.Int32
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for {
			if p := peak.Load(); n <= p || peak.CompareAndSwap(p, n) {
				break
			}
		}
		select { // stay until cancelled, so that those at once are seen at once
		case <-r.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}), standConfig{})
	f := rawHTTP2(t, s)
	go func() {
		for { // the server's answers must not fill the pipe
			if _, err := f.ReadFrame(); err != nil {
				return
			}
		}
	}()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	refused := false
	for stream := uint32(1); stream < 40000 && !refused; stream += 2 {
		block.Reset()
		for _, h := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "a.test"}, {Name: ":path", Value: "/"}} {
			_ = enc.WriteField(h)
		}
		refused = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}) != nil ||
			f.WriteRSTStream(stream, http2.ErrCodeCancel) != nil
	}
	if res, _ := mustGet(t, httpClient(t, true), s.url); res.StatusCode != 200 {
		t.Errorf("another client then gets %d", res.StatusCode)
	}
	if p := peak.Load(); p > 100 {
		t.Errorf("%d requests at once reached the site from one connection", p)
	}
}
