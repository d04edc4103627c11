package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/crowd"
	"ropeline/cmd/ropeline/demosite"
)

// demoPath is the gated part of the demo site.
const demoPath = "/events/spring-tour/"

type demoFlags struct {
	listen, admin string
	visitors      int
	rate          string
	activeLimit   int
	duration      time.Duration
}

func demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run everything with nothing installed: a site, a room, a crowd",
		Long: "Starts a redis-server found on this machine (or keeps the line in this process), a small concert site, a waiting room in\n" +
			"front of it and a simulated crowd, and prints the addresses to open. It ends with a report, and exits 1 if a promise was\n" +
			"broken.",
		Args: noArgs,
	}
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "where visitors connect")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:9901", "where metrics, health and the admin API answer")
	flags.IntVar(&f.visitors, "visitors", 300, "size of the crowd; 0 = nobody but you")
	flags.StringVar(&f.rate, "rate", "20/s", "admission rate, as 20/s or 600/min")
	flags.IntVar(&f.activeLimit, "active-limit", 100, "most visitors admitted at once")
	flags.DurationVar(&f.duration, "duration", 0, "end after this long; 0 = when interrupted")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return demo(c.Context(), f, c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

func demo(ctx context.Context, f demoFlags, stdout, stderr io.Writer) error {
	if f.visitors < 0 || f.duration < 0 {
		return fmt.Errorf("%w: --visitors and --duration can't be negative", errUsage)
	}
	site, err := demosite.New(demosite.Config{})
	if err != nil {
		return err
	}
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cfg, err := config.Parse(demoConfig(f, behind.Addr().String()), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	log := newLogger(stderr, cfg.Log, new(slog.LevelVar))
	n, err := newNode(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer n.close()

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	upstream := &http.Server{Handler: site, ReadHeaderTimeout: 5 * time.Second}
	group.Go(func() error {
		if err := upstream.Serve(behind); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-serving.Done()
		return upstream.Close()
	})
	group.Go(func() error { return n.run(serving) })

	welcome(stdout, n, f)
	report, err := demoCrowd(ctx, serving, f, "http://"+n.addr()+demoPath, stderr)
	stop()
	if ended := group.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	if missing := site.Counts().WithoutSession; missing > 0 {
		report.PassedWithoutToken += int(missing)
	}
	fmt.Fprintln(stdout)
	return judge(stdout, stderr, report, false)
}

func welcome(w io.Writer, n *node, f demoFlags) {
	fmt.Fprintf(w, `Ropeline is running, with %s as the store.

  the waiting room   http://%s%s   join the line yourself
  the site's front   http://%s/   not gated
  rooms as JSON      http://%s/admin/v1/rooms
  metrics            http://%s/metrics

%d visitors arrive now; %s are admitted, at most %d at once.
`, n.store.what, n.addr(), demoPath, n.addr(), n.adminListener.Addr(), n.adminListener.Addr(), f.visitors, f.rate, f.activeLimit)
	if f.duration > 0 {
		fmt.Fprintf(w, "It ends by itself after %s.\n\n", f.duration)
	} else {
		fmt.Fprint(w, "Ctrl-C ends it.\n\n")
	}
}

// demoCrowd runs the crowd until it is through or the time is up, and then waits for the end of the demo.
func demoCrowd(ctx, serving context.Context, f demoFlags, target string, progress io.Writer) (crowd.Report, error) {
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(serving, cancel) // the node ended by itself
	defer stop()
	var report crowd.Report
	if f.visitors > 0 {
		cfg := crowd.Default()
		cfg.Target, cfg.Visitors, cfg.ActiveLimit, cfg.Progress = target, f.visitors, f.activeLimit, progress
		cfg.Stay = 3 * time.Second
		if f.duration > 0 {
			cfg.Arrive = min(cfg.Arrive, f.duration/3)
			cfg.Duration = max(f.duration-time.Second, time.Second)
		}
		var err error
		if report, err = crowd.Run(ctx, cfg); err != nil {
			return report, err
		}
	}
	<-ctx.Done()
	return report, nil
}

// demoConfig is the demo's configuration file.
func demoConfig(f demoFlags, upstream string) []byte {
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
`, f.listen, f.admin, upstream, demoPath, demoPath, f.rate, f.activeLimit)
}
