package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// breakingConn answers a script with the end of the connection, after Redis has worked it off.
type breakingConn struct {
	net.Conn
	armed *atomic.Bool
	hit   bool
}

func (c *breakingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("evalsha")) && c.armed.CompareAndSwap(true, false) {
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

// TestGate_LostAnswerIsNotAskedAgainByTheClient: a repeated Take would succeed, and a repeated try would count twice.
func TestGate_LostAnswerIsNotAskedAgainByTheClient(t *testing.T) {
	var armed atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &breakingConn{Conn: conn, armed: &armed}, err
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
			rdb, now, event := client(), newClock(), newEvent()
			defer rdb.Close()
			g := New(rdb, Config{Timeout: patient.Timeout, Now: now.Now})
			take(t, g, event, "warm", "A1") // Redis knows the scripts now
			g.Allow(t.Context(), event, "warm", 1)

			armed.Store(true)
			if _, err := g.Take(t.Context(), event, []string{"F5"}, "a", time.Hour); !errors.Is(err, ErrAway) || armed.Load() {
				t.Errorf("got %v, want ErrAway; answer lost: %v", err, !armed.Load())
			}
			want(t, "marks", marks(t, rdb, event, "F5"), map[string]string{"F5": "a"})

			now.add(pause)
			armed.Store(true)
			_, first := g.Allow(t.Context(), event, "an", 2)
			now.add(pause)
			_, second := g.Allow(t.Context(), event, "an", 2)
			_, third := g.Allow(t.Context(), event, "an", 2)
			if armed.Load() || !first || !second || third {
				t.Errorf("tries passed %v %v %v, want two; answer lost: %v", first, second, third, !armed.Load())
			}
		})
	}
}
