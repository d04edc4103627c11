package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// ServerConfig tunes a Server. Each field's zero value selects its default.
type ServerConfig struct {
	CertFile, KeyFile string        // both set: TLS; read again when they change
	MaxHeaderBytes    int           // default 32 KiB; more is 431
	MaxConns          int           // default 20000; more wait to be accepted, and from three quarters on none is kept alive
	HeaderTimeout     time.Duration // for the TLS handshake and for each request head; default 10s, then 408
	KeepAlive         time.Duration // for a connection between requests; default 120s, longer than any poll interval
	BodyIdle          time.Duration // longest time without progress of a body, either way; default 60s
	DisableHTTP2      bool          // neither h2 nor h2c
	Logger            *slog.Logger  // default: discards
}

// Server is the listening side of the edge: HTTP/1.1, HTTP/2 over TLS, h2c without TLS, with a bound on
// everything a client can make it wait for or keep. Upgraded connections are the handler's to close.
type Server struct {
	http  http.Server
	cfg   ServerConfig
	slots chan struct{} // one for each open connection
	hurry atomic.Bool   // close at once
}

// NewServer refuses a certificate that can't be loaded.
func NewServer(handler http.Handler, cfg ServerConfig) (*Server, error) {
	cfg.MaxHeaderBytes = cmp.Or(cfg.MaxHeaderBytes, 32<<10)
	cfg.MaxConns = cmp.Or(cfg.MaxConns, 20000)
	cfg.HeaderTimeout = cmp.Or(cfg.HeaderTimeout, 10*time.Second)
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, 120*time.Second)
	cfg.BodyIdle = cmp.Or(cfg.BodyIdle, 60*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, slots: make(chan struct{}, cfg.MaxConns)}
	s.http = http.Server{
		Handler:                      s.limit(handler),
		MaxHeaderBytes:               cfg.MaxHeaderBytes,
		ReadHeaderTimeout:            cfg.HeaderTimeout,
		IdleTimeout:                  cfg.KeepAlive,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(serverLog{cfg.Logger}, "", 0),
		Protocols:                    new(http.Protocols),
		ConnContext:                  s.connected,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100,
			SendPingTimeout:      cfg.KeepAlive / 2,
			WriteByteTimeout:     cfg.BodyIdle,
		},
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(!cfg.DisableHTTP2)
	s.http.Protocols.SetUnencryptedHTTP2(!cfg.DisableHTTP2)
	if cfg.CertFile == "" && cfg.KeyFile == "" {
		return s, nil
	}
	cert, err := loadCertificate(cfg.CertFile, cfg.KeyFile, cfg.Logger)
	if err != nil {
		return nil, err
	}
	s.http.TLSConfig = &tls.Config{GetCertificate: cert.get, NextProtos: []string{"h2", "http/1.1"}}
	if cfg.DisableHTTP2 {
		s.http.TLSConfig.NextProtos = []string{"http/1.1"}
	}
	return s, nil
}

// Serve answers on l, which it closes, until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	ln := newListener(l, s.slots, !s.cfg.DisableHTTP2, s.http.TLSConfig.Clone(), s.cfg.HeaderTimeout)
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting and waits for requests under way, then or when ctx ends closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.hurry.Store(true)
		_ = s.http.Close()
	}
	return err
}

// OnShutdown has f called, by itself, when Shutdown begins: to end what Shutdown would wait for in vain.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

type connKey struct{}

// connected has guard find the connection of a request, if it is a strictConn.
func (s *Server) connected(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(interface{ strict() *strictConn }); ok {
		conn := c.strict()
		conn.hurry = &s.hurry
		return context.WithValue(ctx, connKey{}, conn)
	}
	return ctx
}

// limit guards the handler's bodies, and refuses what strictConn does not see.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor > 1 && fields(r.Header) > maxFields {
			http.Error(w, http.StatusText(http.StatusRequestHeaderFieldsTooLarge), http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		if r.ProtoMajor == 1 && (r.Method == http.MethodConnect || r.Method == "PRI") {
			w.Header().Set("Connection", "close") // what follows may be no HTTP/1
		}
		if s.crowded() && r.ProtoMajor == 1 && len(r.Header["Upgrade"]) == 0 {
			w.Header().Set("Connection", "close")
		}
		g, r := guard(w, r, s.cfg.BodyIdle)
		defer g.finish()
		next.ServeHTTP(g, r)
	})
}

// crowded reports whether connections that are only kept alive would soon keep newcomers out.
func (s *Server) crowded() bool {
	open := len(s.slots) - 1 // one slot is that of the connection to come
	return open > cap(s.slots)*3/4
}

func fields(h http.Header) (n int) {
	for _, v := range h {
		n += len(v)
	}
	return n
}

// serverLog takes what net/http has to say. Its lines name addresses, so they stay below info, but for
// a handler's panic, whose address is cut.
type serverLog struct{ to *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	if rest, found := bytes.CutPrefix(line, []byte("http: panic serving ")); found {
		_, what, _ := bytes.Cut(rest, []byte(": "))
		l.to.Error("request handler panicked", "err", string(bytes.TrimSpace(what)))
	} else {
		l.to.Debug("http server", "err", string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}
