package queue

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// breakingConn answers a command that holds a word with the end of the connection, after Redis has worked it off.
type breakingConn struct {
	net.Conn
	word  []byte
	armed *atomic.Bool
	hit   bool
}

func (c *breakingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.word) && c.armed.CompareAndSwap(true, false) {
		c.hit = true
	}
	return c.Conn.Write(b)
}

func (c *breakingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.hit && err == nil {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

// TestScript_LostAnswerIsNotAskedAgainByTheClient: only the caller may repeat a script, since only it can say so. A client
// that does by itself gives a number twice.
func TestScript_LostAnswerIsNotAskedAgainByTheClient(t *testing.T) {
	var armed atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &breakingConn{Conn: conn, word: []byte(joinScript.sha), armed: &armed}, err
	}
	clients := map[string]func() redis.UniversalClient{
		"redis": func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: redistest.Server(t).Addr(), MaxRetries: -1, Dialer: dial})
		},
		"cluster": func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.Cluster(t).Addrs(), MaxRetries: -1, MaxRedirects: 3, Dialer: dial})
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			rdb := client()
			defer rdb.Close()
			l := node(t, rdb, roomName(), Config{})
			join(t, l, Visitor{}) // Redis knows the script now
			armed.Store(true)
			second, third := join(t, l, Visitor{}), join(t, l, Visitor{})
			if armed.Load() {
				t.Fatal("no answer was lost: the test proves nothing")
			}
			if second.Place.Number != 2 || third.Place.Number != 3 {
				t.Errorf("numbers %d and %d after a lost answer, want 2 and 3", second.Place.Number, third.Place.Number)
			}
		})
	}
}
