package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// stand is a server of ours in front of a site: what a request meets when there is nothing to wait for.
type stand struct {
	url    string
	addr   string
	up     *upstream
	server *Server
	served chan error
}

// standConfig: every field may stay zero.
type standConfig struct {
	routes  []Route
	proxies []netip.Prefix
	server  ServerConfig
	up      UpstreamConfig
	pass    func(*pass) // last changes to what is passed on
}

// goodToken opens the stand's gate.
const goodToken = "good"

func newStand(t *testing.T, site string, cfg standConfig) *stand {
	t.Helper()
	target, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{up: newUpstream(cfg.up), served: make(chan error, 1)}
	tab, tr := newTable(cfg.routes), newTrust(cfg.proxies)
	gate := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rawPath, rawQuery, problem := judgeTarget(r)
		if problem != nil {
			http.Error(w, problem.slug, problem.status)
			return
		}
		m := tab.match(r.Host, rawPath)
		if m.Refuse {
			http.Error(w, "ambiguous-path", http.StatusBadRequest)
			return
		}
		if len(m.Rooms) > 0 && !m.Public && r.Header.Get(tokenHeader) != goodToken {
			http.Error(w, "not-admitted", http.StatusForbidden)
			return
		}
		p := pass{Target: target, RawPath: rawPath, RawQuery: rawQuery, Client: tr.client(r)}
		if cfg.pass != nil {
			cfg.pass(&p)
		}
		s.up.serve(w, r, p)
	})
	if s.server, err = NewServer(gate, cfg.server); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.url = "http://" + s.addr
	if cfg.server.CertFile != "" {
		s.url = "https://" + s.addr
	}
	go func() { s.served <- s.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.up.CloseUpgraded(ctx); err != nil {
			t.Errorf("close upgraded connections: %v", err)
		}
		_ = s.server.Shutdown(ctx)
		if err := <-s.served; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.up.proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	return s
}

// dialRaw opens a raw connection that the test's end closes.
func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// askRaw sends raw bytes and returns everything that comes back until the other side closes.
func askRaw(t *testing.T, addr, raw string) string {
	t.Helper()
	c := dialRaw(t, addr)
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c)
	return string(got)
}

// statusOf is the number in the first status line.
func statusOf(answer string) string {
	_, rest, _ := strings.Cut(answer, " ")
	status, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(status)
}

// recorder is a site that keeps every byte it is sent. It answers each request that it can make out.
type recorder struct {
	url string
	mu  sync.Mutex
	got strings.Builder
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rec := &recorder{url: "http://" + l.Addr().String()}
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = c.Close() })
			open.Go(func() { rec.answer(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); cancel(); open.Wait() })
	return rec
}

func (rec *recorder) answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(io.TeeReader(c, rec))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (rec *recorder) Write(p []byte) (int, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.got.Write(p)
}

// taken returns what came since the last call.
func (rec *recorder) taken() string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	defer rec.got.Reset()
	return rec.got.String()
}

// originSite is a handler on a port of its own.
func originSite(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// httpClient speaks HTTP/1.1, or HTTP/2 with prior knowledge, and keeps nothing after the test.
func httpClient(t *testing.T, h2c bool) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2c)
	tr.Protocols.SetUnencryptedHTTP2(h2c)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func mustGet(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}
