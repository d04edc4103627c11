package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echoSite switches protocols when asked to and then sends back what it gets; otherwise it lists the headers
// that an upgrade would need.
func echoSite(t *testing.T) string {
	return originSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprintf(w, "plain %s %q %q", r.Method, r.Header["Connection"], r.Header["Http2-Settings"])
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + r.Header.Get("Upgrade") + "\r\nX-Ropeline-Session: x\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw.Reader)
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
	})
}

const openSocket = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\n\r\n"

// upgrade opens a websocket by hand and reads the head of the answer.
func upgrade(t *testing.T, s *stand, send string) (io.ReadWriteCloser, *bufio.Reader) {
	t.Helper()
	c := dialRaw(t, s.addr)
	_, _ = io.WriteString(c, send)
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get("Upgrade") == "" || res.Header.Get("X-Ropeline-Session") != "" {
		t.Fatalf("got %d %v", res.StatusCode, res.Header)
	}
	return c, in
}

func echo(t *testing.T, c io.Writer, in io.Reader, text string) {
	t.Helper()
	_, _ = io.WriteString(c, text)
	got := make([]byte, len(text))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != text {
		t.Fatalf("got %q %v, want %q", got, err, text)
	}
}

func TestUpgrade_WebSocketBytesPassUntouched(t *testing.T) {
	s := newStand(t, echoSite(t), standConfig{})
	c, in := upgrade(t, s, openSocket)
	echo(t, c, in, "hello")
	echo(t, c, in, "no HTTP: \n\x00 GET / HTTP/1.1\n folded\n\n"+strings.Repeat("\xff\n", 100000))
	if n := s.up.Upgraded(); n != 1 {
		t.Errorf("%d upgraded connections are counted, want 1", n)
	}
}

func TestUpgrade_WhatTheClientSentAheadIsNotLost(t *testing.T) {
	s := newStand(t, echoSite(t), standConfig{})
	c, in := upgrade(t, s, openSocket+"early\r\n")
	echo(t, io.Discard, in, "early\r\n")
	echo(t, c, in, "late")
}

func TestUpgrade_HalfClosedConnectionStillBringsTheRest(t *testing.T) {
	s := newStand(t, echoSite(t), standConfig{})
	c, in := upgrade(t, s, openSocket)
	_, _ = io.WriteString(c, "last words")
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(in); err != nil || string(got) != "last words" {
		t.Errorf("got %q %v", got, err)
	}
}

func TestUpgrade_EverythingButWebSocketIsDropped(t *testing.T) {
	s := newStand(t, echoSite(t), standConfig{})
	for _, head := range []string{
		"GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n",
		"GET / HTTP/1.1\r\nUpgrade: TLS/1.3\r\nConnection: Upgrade\r\n",
		"GET / HTTP/1.1\r\nUpgrade: \xfcber\r\nConnection: Upgrade\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket\r\n",
		"POST / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\nX-Body-None: 1\r\nContent-Type: a/b\r\nTransfer-Encoding-Not: 1\r\nExpect: 100-continue\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n",
	} {
		body := ""
		switch {
		case strings.Contains(head, "chunked"):
			body = "0\r\n\r\n"
		case strings.Contains(head, "Length: 2"):
			body = "ab"
		case strings.Contains(head, "Length: 0"):
			continue // no body: a proper upgrade
		}
		got := askRaw(t, s.addr, head+"Host: a.test\r\nConnection: close\r\n\r\n"+body)
		if statusOf(got) != "200" || !strings.Contains(got, "plain") || !strings.HasSuffix(got, "[] []") {
			t.Errorf("%q: got %q", head, got)
		}
	}
}

func TestUpgrade_EndsWithItsSessionAndNotBefore(t *testing.T) {
	var asked atomic.Int32
	var end atomic.Value // of the session as it was last told
	s := newStand(t, echoSite(t), standConfig{pass: func(p *pass) {
		p.Until = func() time.Time {
			if asked.Add(1) <= 2 { // at the second time the session has been lengthened
				end.Store(time.Now().Add(150 * time.Millisecond))
			}
			return end.Load().(time.Time)
		}
	}})
	c, in := upgrade(t, s, openSocket)
	echo(t, c, in, "open")
	if _, err := in.ReadByte(); err == nil {
		t.Fatal("got a byte that nobody sent")
	}
	if early := time.Until(end.Load().(time.Time)); early > 0 {
		t.Errorf("closed %v before the lengthened session ended", early)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the end was asked for %d times, want 3", n)
	}
}

func TestUpgrade_EndedSessionClosesItsSocketsAndEventStreams(t *testing.T) {
	ended := make(chan struct{})
	stream := originSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ws := newStand(t, echoSite(t), standConfig{pass: func(p *pass) { p.Ended = ended }})
	sse := newStand(t, stream, standConfig{pass: func(p *pass) { p.Ended = ended }})
	c, in := upgrade(t, ws, openSocket)
	echo(t, c, in, "open")
	res, err := httpClient(t, false).Get(sse.url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	close(ended)
	if _, err := in.ReadByte(); err == nil {
		t.Error("the socket is still open")
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("event stream: got %q, %v, want a proper end", rest, err)
	}
}

func TestUpgrade_CloseUpgradedLeavesNoneAndLetsNoneIn(t *testing.T) {
	s := newStand(t, echoSite(t), standConfig{})
	_, first := upgrade(t, s, openSocket)
	_, second := upgrade(t, s, openSocket)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.up.CloseUpgraded(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.up.Upgraded(); n != 0 {
		t.Errorf("%d are left", n)
	}
	for _, in := range []*bufio.Reader{first, second} {
		if _, err := in.ReadByte(); err == nil {
			t.Error("still open")
		}
	}
	if got := askRaw(t, s.addr, openSocket); strings.Contains(got, "\r\n\r\nx") {
		t.Errorf("a new one: got %q", got)
	}
}
