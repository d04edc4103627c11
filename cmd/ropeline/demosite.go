package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"ropeline/cmd/ropeline/crowd"
	"ropeline/cmd/ropeline/demosite"
)

// sitePath is the gated part of the small concert site.
const sitePath = "/events/spring-tour/"

// siteScene is a concert site that knows nothing of the room in front of it, and keeps its seats in memory.
func siteScene(f demoFlags) (*scene, judged, error) {
	site, err := demosite.New(demosite.Config{})
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: site, ReadHeaderTimeout: 5 * time.Second}
	s := &scene{
		config: siteConfig(f, listener.Addr().String()), path: sitePath,
		serve: func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { _ = server.Close() })
			defer stop()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		places: func(n *node) [][2]string {
			return [][2]string{{"http://" + n.addr() + "/", "the site's front, not gated"}}
		},
		close: func() { _ = listener.Close() },
	}
	return s, func(_ context.Context, _ *node, r *crowd.Report) error {
		r.PassedWithoutToken += int(site.Counts().WithoutSession)
		return nil
	}, nil
}

// siteConfig is the demo's configuration file with the site behind the room.
func siteConfig(f demoFlags, upstream string) []byte {
	return fmt.Appendf(nil, `
listen: %q
admin_listen: %q
redis: {url: auto}
upstream: http://%s
log: {level: warn, format: text}
shutdown_grace: 3s
rooms:
  - id: spring-tour
    title: Spring Tour
    paths: [%s]
    public_paths: [%sposter.svg]
    rate: %s
    active_limit: %d
    session: 2m
    claim_window: 30s
`, f.listen, f.admin, upstream, sitePath, sitePath, f.rate, f.activeLimit)
}
