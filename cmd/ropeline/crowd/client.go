package crowd

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// request is one request of a visitor or a cheat.
type request struct {
	method string
	target string // path and query exactly as they go on the wire, odd spellings included
	header http.Header
	body   string
	origin *url.URL // where to, if not to the target's own scheme and host; nil: there
	most   int64    // most bytes of a JSON answer to keep; 0 selects maxBody
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte // of JSON answers only, at most maxBody; other bodies are read and thrown away
}

// state is the edge's own word for an answer it made itself; empty for an answer of the upstream.
func (a answer) state() string { return a.header.Get("X-Ropeline-State") }

// maxBody is the most that is kept of a JSON answer, in bytes. Queue answers are below 2 KiB.
const maxBody = 64 << 10

// maxPage is the most that is read of a page to keep its connection, in bytes.
const maxPage = 1 << 20

// client sends one request and returns its answer: redirects are not followed, cookies are the caller's.
// An error means that no answer came; it may still have been acted upon. Safe for concurrent use.
type client interface {
	do(ctx context.Context, req request) (answer, error)
}

// httpClient is a client over one shared transport: HTTP/1.1, kept connections, at most cap(slots) at once.
type httpClient struct {
	origin    *url.URL
	transport *http.Transport
	slots     chan struct{}
	timeout   time.Duration
}

func newHTTPClient(origin *url.URL, cfg Config) *httpClient {
	return &httpClient{
		origin: origin,
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			MaxIdleConns:        cfg.Connections,
			MaxIdleConnsPerHost: cfg.Connections,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true, // pages are asked for compressed and thrown away as they came
			ReadBufferSize:      4 << 10,
			WriteBufferSize:     4 << 10,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: cfg.Insecure}, //nolint:gosec // asked for by --insecure
		},
		slots:   make(chan struct{}, cfg.Connections),
		timeout: cfg.Timeout,
	}
}

func (c *httpClient) do(ctx context.Context, req request) (answer, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	resp, err := c.transport.RoundTrip(c.build(ctx, req))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return a, nil // the body is the connection itself: there is nothing to wait for
	}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		a.body, err = io.ReadAll(io.LimitReader(resp.Body, max(req.most, maxBody)))
	} else {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxPage))
	}
	return a, err
}

// build puts the target on the wire byte for byte. URL.Opaque does that, except for a target that starts with
// two slashes, which it would send in absolute form; URL.Path sends that one as it is.
func (c *httpClient) build(ctx context.Context, req request) *http.Request {
	origin := c.origin
	if req.origin != nil {
		origin = req.origin
	}
	u := &url.URL{Scheme: origin.Scheme, Host: origin.Host, Opaque: req.target}
	if strings.HasPrefix(req.target, "//") {
		u.Opaque, u.Path = "", req.target
	}
	r := &http.Request{
		Method: req.method, URL: u, Host: origin.Host, Header: req.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if req.body != "" {
		r.Body = io.NopCloser(strings.NewReader(req.body))
		r.ContentLength = int64(len(req.body))
	}
	return r.WithContext(ctx)
}

func (c *httpClient) close() { c.transport.CloseIdleConnections() }
