package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"ropeline/booking/payment"
	"ropeline/booking/payment/sandbox"
	"ropeline/booking/payment/stripe"
	"ropeline/booking/payment/webhook"
	"ropeline/cmd/ropeline/config"
	"ropeline/proxy"
)

// providers are those that take money, the one for new payments first.
type providers struct{ list []payment.Provider }

func (p providers) names() []string {
	var out []string
	for _, one := range p.list {
		out = append(out, one.Name())
	}
	return out
}

// openProvider makes the provider that the configuration names, and starts the sandbox.
func (s *shop) openProvider(cfg config.Booking, files secrets) (providers, error) {
	switch cfg.Provider {
	case "sandbox":
		return s.openSandbox(cfg, files["booking.sandbox.secret_file"])
	case "stripe":
		p, err := stripe.New(stripe.Config{
			Key:            files["booking.stripe.secret_key_file"],
			WebhookSecrets: strings.Fields(files["booking.stripe.webhook_secret_file"]), // several while one is exchanged
			ReturnURL:      cfg.PublicURL,
		})
		if err != nil {
			return providers{}, fmt.Errorf("booking.stripe: %w", err)
		}
		return providers{[]payment.Provider{p}}, nil
	}
	return providers{}, nil
}

func (s *shop) openSandbox(cfg config.Booking, secret string) (providers, error) {
	shared := secret != ""
	if !shared {
		secret = webhook.NewSecret()
	}
	address := cfg.Sandbox.Listen
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		address = listener.Addr().String()
		if s.sandbox, err = newSandbox(listener, sandboxPages(cfg.PublicURL, address), secret, cfg.Sandbox.File, s.log); err != nil {
			return providers{}, fmt.Errorf("booking.sandbox: %w", err)
		}
	case shared && errors.Is(err, syscall.EADDRINUSE):
		s.log.Info("another process's sandbox is used", "address", address)
	default:
		return providers{}, fmt.Errorf("booking.sandbox.listen: %w", err)
	}
	client, err := sandbox.New(sandbox.Config{URL: "http://" + dialable(address), Secrets: []string{secret}})
	if err != nil {
		return providers{}, fmt.Errorf("booking.sandbox: %w", err)
	}
	return providers{[]payment.Provider{client}}, nil
}

// dialable is how this machine reaches one of its own listeners: one on every address is on the loopback one, too.
func dialable(address string) string {
	host, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// sandboxPages is where customers find the sandbox's pages: on the shop's host where it listens on every address, "" where
// it listens.
func sandboxPages(public, address string) string {
	u, err := url.Parse(public)
	_, port, _ := net.SplitHostPort(address)
	if err != nil || public == "" || dialable(address) == address {
		return ""
	}
	return "http://" + net.JoinHostPort(u.Hostname(), port)
}

// sandboxServer is the sandbox of this process.
type sandboxServer struct {
	listener net.Listener
	sandbox  *sandbox.Server
	server   *http.Server
	calls    *late
}

func newSandbox(listener net.Listener, pages, secret, file string, log *slog.Logger) (*sandboxServer, error) {
	s := &sandboxServer{listener: listener, calls: &late{}}
	var err error
	s.sandbox, err = sandbox.NewServer(sandbox.ServerConfig{
		CallbackURL: "http://booking/v1/payments/callback/sandbox", Secret: secret, URL: pages, File: file,
		Client: &http.Client{Transport: s.calls, Timeout: 10 * time.Second}, Log: log,
	})
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	s.server = &http.Server{Handler: s.sandbox, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	return s, nil
}

// callTo sends callbacks to the core's API, within this process: the way through the edge depends on hosts and certificates.
func (s *sandboxServer) callTo(h http.Handler) { s.calls.set(proxy.LocalTransport(h)) }

func (s *sandboxServer) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.server.Close() })
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("booking.sandbox.listen: %w", err)
	}
	return nil
}

func (s *sandboxServer) close() {
	_ = s.server.Close()
	_ = s.listener.Close()
	_ = s.sandbox.Close()
}
