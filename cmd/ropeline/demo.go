package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/crowd"
)

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
		Short: "Run everything with nothing installed: a concert, a room, a crowd",
		Long: "Starts a redis-server and a Postgres found on this machine, a concert that the booking core sells, a waiting room in\n" +
			"front of it and a simulated crowd that wants more seats than there are, and prints the addresses to open. Without a\n" +
			"redis-server the line is kept in this process; without a Postgres a small concert site stands in for the booking core.\n" +
			"Nothing is kept. It ends with a report, and exits 1 if a promise was broken.",
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

// scene is what the demo's waiting room stands in front of.
type scene struct {
	config []byte                          // the demo's configuration file
	path   string                          // the gated page that the crowd wants to see
	buy    bool                            // the crowd buys seats by the booking API
	serve  func(ctx context.Context) error // runs it until ctx ends; nil: it runs within the node
	places func(n *node) [][2]string       // more addresses to look at, and what is there
	what   string                          // what keeps the seats, for people
	close  func()
}

func demo(ctx context.Context, f demoFlags, stdout, stderr io.Writer) error {
	if f.visitors < 0 || f.duration < 0 {
		return fmt.Errorf("%w: --visitors and --duration can't be negative", errUsage)
	}
	if _, err := config.ParseRate(f.rate); err != nil {
		return fmt.Errorf("%w: --rate: %w", errUsage, err)
	}
	s, judged, err := setScene(ctx, f, stderr)
	if err != nil {
		return err
	}
	defer s.close()
	cfg, err := config.Parse(s.config, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	log := newLogger(stderr, cfg.Log, new(slog.LevelVar))
	n, err := newNode(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer n.close()
	report, err := perform(ctx, f, s, n, judged, stdout, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	return judge(stdout, stderr, report, false)
}

// judged adds what the scene itself saw to the crowd's report, while the node still runs.
type judged func(ctx context.Context, n *node, r *crowd.Report) error

// perform runs the node and the crowd until the demo ends.
func perform(ctx context.Context, f demoFlags, s *scene, n *node, add judged, stdout, stderr io.Writer) (crowd.Report, error) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	if s.serve != nil {
		group.Go(func() error { return s.serve(serving) })
	}
	group.Go(func() error { return n.run(serving) })
	welcome(stdout, n, s, f)
	report, err := demoCrowd(ctx, serving, f, s, "http://"+n.addr()+s.path, stderr)
	if err == nil && serving.Err() == nil {
		err = add(context.WithoutCancel(ctx), n, &report)
	}
	stop()
	if ended := group.Wait(); ended != nil {
		err = ended
	}
	return report, err
}

func welcome(w io.Writer, n *node, s *scene, f demoFlags) {
	fmt.Fprintf(w, "Ropeline is running, with %s as the store%s.\n\n", n.store.what, s.what)
	for _, p := range append(append([][2]string{{"http://" + n.addr() + s.path, "the waiting room: join the line yourself"}}, s.places(n)...),
		[2]string{"http://" + n.adminListener.Addr().String() + "/admin/v1/rooms", "rooms as JSON"},
		[2]string{"http://" + n.adminListener.Addr().String() + "/metrics", "metrics"},
	) {
		fmt.Fprintf(w, "  %-46s %s\n", p[0], p[1])
	}
	fmt.Fprintf(w, "\n%d visitors arrive now; %s are admitted, at most %d at once.\n", f.visitors, f.rate, f.activeLimit)
	if f.duration > 0 {
		fmt.Fprintf(w, "It ends by itself after %s.\n\n", f.duration)
	} else {
		fmt.Fprint(w, "Ctrl-C ends it.\n\n")
	}
}

// demoCrowd runs the crowd until it is through or the time is up, and then waits for the end of the demo.
func demoCrowd(ctx, serving context.Context, f demoFlags, s *scene, target string, progress io.Writer) (crowd.Report, error) {
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(serving, cancel) // the node ended by itself
	defer stop()
	report := crowd.Report{}
	if f.visitors > 0 {
		cfg := crowd.Default()
		cfg.Target, cfg.Visitors, cfg.ActiveLimit, cfg.Progress = target, f.visitors, f.activeLimit, progress
		cfg.Stay, cfg.Buy = 3*time.Second, s.buy
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
