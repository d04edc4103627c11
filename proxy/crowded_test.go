package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestServer_KeepsNoConnectionAliveWhenCrowded: idle visitors must not keep newcomers out.
func TestServer_KeepsNoConnectionAliveWhenCrowded(t *testing.T) {
	s, err := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
		ServerConfig{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for n := 1; n <= 30; n++ { // more than there are slots: each newcomer is served
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		// Three quarters are six; whether the slot for the one to come is taken already is a matter of luck.
		if want := n > 6; res.Close != want && n != 6 && n != 7 {
			t.Errorf("connection %d of 8: closes %v, want %v", n, res.Close, want)
		}
	}
}
