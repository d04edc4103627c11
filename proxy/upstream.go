package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// UpstreamConfig tunes the way to upstreams. Each field's zero value selects its default.
type UpstreamConfig struct {
	DialTimeout   time.Duration // default 5s
	HeaderTimeout time.Duration // from the request's last byte to the answer's header; default 60s
	IdleTimeout   time.Duration // how long an unused connection is kept; default 90s
	MaxIdle       int           // unused connections kept to one upstream; default 512
	TLS           *tls.Config   // for https upstreams; default: the system's roots
	Logger        *slog.Logger  // default: discards
}

// upstream passes requests on to the sites behind us. Safe for concurrent use; close with CloseUpgraded.
//
// It never repeats a request that could have had an effect: [http.Transport] repeats only what it is sure was
// not sent, or is idempotent and without a body.
type upstream struct {
	proxy   httputil.ReverseProxy
	schemes map[string]bool // of URLs that there is a way to
	log     *slog.Logger
	long    lasting

	silent seldom
}

// pass is one request on its way to an upstream.
type pass struct {
	Target            *url.URL // the upstream: scheme, host, and a path put in front of the request's
	RawPath, RawQuery string   // from judgeTarget; forwarded byte for byte
	Host              string   // forwarded Host; default: the request's
	Client            clientInfo

	// What the upstream is told of the visitor. An empty value sets no header.
	Visitor, Room, Place, Session string
	Token                         string // forwarded as X-Queue-Token
	CoreCookies                   bool   // the upstream is the booking core or stands in for it: it may set and see the core's cookies

	// Until is when an upgraded connection or an event stream must end; nil or zero: never. It is asked again
	// each time it has come, so a lengthened session lengthens what it opened.
	Until func() time.Time
	Ended <-chan struct{} // closed when the session ended early; nil: never

	// OnResponse sees the upstream's answer with its X-Ropeline-* headers still on; it may change the header.
	// An error from it becomes a 502. It is not called for 1xx answers other than 101.
	OnResponse func(*http.Response) error
	// OnError writes the answer when there is none from the upstream: 502 upstream-down, 504 upstream-timeout,
	// 408 request-timeout, 413 too-large, 400 bad-request. Default: plain text.
	OnError func(w http.ResponseWriter, r *http.Request, status int, slug string)
}

func newUpstream(cfg UpstreamConfig) *upstream {
	u := &upstream{log: cfg.Logger}
	if u.log == nil {
		u.log = slog.New(slog.DiscardHandler)
	}
	u.long.open = make(map[*tenure]struct{})
	u.proxy = httputil.ReverseProxy{
		Transport:      newTransport(cfg),
		Rewrite:        rewrite,
		ModifyResponse: u.modify,
		ErrorHandler:   u.fail,
		BufferPool:     buffers{},
		ErrorLog:       slog.NewLogLogger(u.log.Handler(), slog.LevelDebug),
	}
	return u
}

// addLocal adds upstreams inside this process, by scheme. A scheme can be added once.
func (u *upstream) addLocal(local map[string]http.RoundTripper) {
	u.schemes = map[string]bool{"http": true, "https": true}
	for scheme, rt := range local {
		u.proxy.Transport.(*http.Transport).RegisterProtocol(scheme, rt)
		u.schemes[scheme] = true
	}
}

// speaks reports whether there is a way to upstreams of a scheme.
func (u *upstream) speaks(scheme string) bool { return u.schemes[scheme] }

func newTransport(cfg UpstreamConfig) *http.Transport {
	dialer := &net.Dialer{Timeout: cmp.Or(cfg.DialTimeout, 5*time.Second)}
	perHost := cmp.Or(cfg.MaxIdle, 512)
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        cfg.TLS,
		TLSHandshakeTimeout:    cmp.Or(cfg.DialTimeout, 5*time.Second),
		ForceAttemptHTTP2:      true, // over TLS; upgrades go by HTTP/1 all the same
		DisableCompression:     true, // a compressed body is the visitor's business
		MaxIdleConns:           4 * perHost,
		MaxIdleConnsPerHost:    perHost,
		IdleConnTimeout:        cmp.Or(cfg.IdleTimeout, 90*time.Second),
		ResponseHeaderTimeout:  cmp.Or(cfg.HeaderTimeout, 60*time.Second),
		MaxResponseHeaderBytes: 256 << 10,
		WriteBufferSize:        8 << 10,
		ReadBufferSize:         8 << 10,
	}
}

// exchange is what the proxy's callbacks know of the request they serve.
type exchange struct {
	pass   *pass
	in     *http.Request // as the client sent it
	body   *upload       // nil: no body
	socket bool          // a websocket upgrade was asked for
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	return ex
}

// serve passes r on and brings the answer back. It panics with [http.ErrAbortHandler] when an answer under
// way cannot be finished, so that the client does not take it for whole.
func (u *upstream) serve(w http.ResponseWriter, r *http.Request, p pass) {
	ex := &exchange{pass: &p, in: r, socket: keepOnlyWebSocket(r)}
	p.Host = cmp.Or(p.Host, r.Host)
	out := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, ex))
	out.URL = target(p.Target, p.RawPath, p.RawQuery)
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		ex.body = &upload{ReadCloser: r.Body}
		out.Body = ex.body
		if r.ProtoMajor == 1 {
			// Without this the server would swallow the rest of the body before it sends an early answer.
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
	}
	u.proxy.ServeHTTP(newAnswer(w, u, ex), out)
}

// target keeps the bytes of path and query: Opaque is written to the wire as it is.
func target(to *url.URL, rawPath, rawQuery string) *url.URL {
	if rawQuery != "" && rawQuery[0] != '?' {
		rawQuery = "?" + rawQuery
	}
	return &url.URL{Scheme: to.Scheme, Host: to.Host, Opaque: strings.TrimSuffix(to.EscapedPath(), "/") + rawPath + rawQuery}
}

// rewrite makes the request for the upstream. Hop-by-hop headers, and those a client nominated in Connection,
// are gone already; what is set here comes after them and can't be nominated away.
func rewrite(pr *httputil.ProxyRequest) {
	ex := exchangeOf(pr.In.Context())
	pr.Out.Host = ex.pass.Host
	var kept []string
	if ex.pass.CoreCookies {
		kept = coreCookies(pr.Out.Header["Cookie"])
	}
	cleanRequest(pr.Out.Header, ex.pass.Client.Trusted)
	if len(kept) > 0 {
		pr.Out.Header["Cookie"] = []string{strings.Join(append(pr.Out.Header["Cookie"], kept...), "; ")}
	}
	setForwarded(pr.Out.Header, ex.in.Header, peer(ex.in.RemoteAddr), ex.pass.Client, ex.pass.Host)
	setIdentity(pr.Out.Header, ex.pass)
	if ex.body != nil {
		ex.body.announceTrailers(ex.in, pr.Out)
	} else {
		pr.Out.Trailer = nil
	}
}

var (
	errUnasked = errors.New("proxy: upstream switched protocols unasked")
	errStatus  = errors.New("proxy: upstream answered with a status that is none")
)

// modify is the way of the answer's header back to the visitor.
func (u *upstream) modify(res *http.Response) error {
	ex := exchangeOf(res.Request.Context())
	upgraded := res.StatusCode == http.StatusSwitchingProtocols
	if upgraded && !(ex.socket && strings.EqualFold(res.Header.Get("Upgrade"), "websocket")) {
		return errUnasked
	}
	if res.StatusCode < 200 && !upgraded {
		return errStatus
	}
	dropOurSetCookies(res.Header, ex.pass.CoreCookies)
	if ex.pass.OnResponse != nil {
		if err := ex.pass.OnResponse(res); err != nil {
			return err
		}
	}
	cleanResponse(res.Header)
	if upgraded {
		return nil
	}
	cleanResponse(res.Trailer) // the announcement
	if res.ContentLength < 0 {
		res.Body = &download{ReadCloser: res.Body, res: res}
	}
	if eventStream(res.Header) {
		res.Body = u.long.stream(res.Body, ex.pass)
	}
	return nil
}

// fail turns the lack of an answer into one. A visitor who left gets 499, for the log alone.
func (u *upstream) fail(w http.ResponseWriter, r *http.Request, err error) {
	ex := exchangeOf(r.Context())
	status, slug := cause(ex, err)
	switch {
	case status == statusClientGone:
		w.WriteHeader(status)
		return
	case status >= 500:
		u.silent.say(time.Now(), func(left int) {
			u.log.Warn("upstream gave no answer", "room", ex.pass.Room, "upstream", ex.pass.Target.Host, "status", status, "err", err, "left_out", left)
		})
	case r.ProtoMajor == 1:
		w.Header().Set("Connection", "close") // the rest of the body may still come
	}
	if ex.pass.OnError == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	ex.pass.OnError(w, ex.in, status, slug)
}

// statusClientGone is nginx's word for a visitor who left before the answer.
const statusClientGone = 499

// cause asks first whether the client's body broke, then whether the client left: both end the upstream's
// part with an error that is not the upstream's.
func cause(ex *exchange, err error) (status int, slug string) {
	gone := ex.in.Context().Err() != nil
	if ex.body != nil {
		if status, slug := ex.body.cause(gone, ex.in.ProtoMajor); status != 0 {
			return status, slug
		}
	}
	var timeout net.Error
	switch {
	case gone:
		return statusClientGone, ""
	case errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout, "upstream-timeout"
	}
	return http.StatusBadGateway, "upstream-down"
}

// buffers are what bodies are copied through.
type buffers struct{}

const bufferSize = 32 << 10

var bufferPool = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (buffers) Get() []byte { return bufferPool.Get().(*[bufferSize]byte)[:] }

func (buffers) Put(b []byte) {
	if len(b) == bufferSize {
		bufferPool.Put((*[bufferSize]byte)(b))
	}
}

// download keeps names of ours out of an answer's trailer, which is known only when its body has been read.
type download struct {
	io.ReadCloser
	res *http.Response
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil {
		cleanResponse(d.res.Trailer)
	}
	return n, err
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	cleanResponse(d.res.Trailer)
	return err
}
