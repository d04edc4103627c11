package proxy

import (
	"bufio"
	"io"
	"net/http"
	"testing"
)

// TestServer_KeepsNoConnectionAliveWhenCrowded: idle visitors must not keep newcomers out.
func TestServer_KeepsNoConnectionAliveWhenCrowded(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{server: ServerConfig{MaxConns: 8}})
	for n := 1; n <= 30; n++ { // more than there are slots: each newcomer is served
		c := dialRaw(t, s.addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		// Three quarters are six; whether the slot for the one to come is taken already is a matter of luck.
		if want := n > 6; res.Close != want && n != 6 && n != 7 {
			t.Errorf("connection %d of 8: closes %v, want %v", n, res.Close, want)
		}
	}
}
