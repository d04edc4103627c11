package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ropeline/cmd/ropeline/config"
)

func configFlag(c *cobra.Command) *string {
	path := c.Flags().StringP("config", "c", "", "configuration file (YAML); required")
	return path
}

// loadConfig reads the file that a command was given, and tells what is wrong with it.
func loadConfig(c *cobra.Command, path string) (*config.Config, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: --config FILE is needed; see %s --help", errUsage, c.CommandPath())
	}
	cfg, err := config.Load(path, os.Environ())
	if err != nil {
		fmt.Fprintln(c.ErrOrStderr(), err)
		return nil, errSaid
	}
	return cfg, nil
}

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the edge and an admitter",
		Long: "Runs the edge and an admitter in one process. Any number of such processes can share one Redis.\n\n" +
			"The file is read again when it changes and on SIGHUP. SIGTERM and SIGINT drain: requests in flight are finished,\n" +
			"the lease is handed over. Every key can be overridden by ROPELINE_<PATH>, a room's by ROPELINE_ROOMS_<ID>_<KEY>.",
		Args: noArgs,
	}
	path := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := loadConfig(c, *path)
		if err != nil {
			return err
		}
		level := new(slog.LevelVar)
		log := newLogger(c.ErrOrStderr(), cfg.Log, level)
		return serve(c.Context(), cfg, *path, log, level)
	}
	return c
}

// serve runs a node that follows the file at path until ctx ends.
func serve(ctx context.Context, cfg *config.Config, path string, log *slog.Logger, level *slog.LevelVar) error {
	for _, w := range config.Warnings(cfg) {
		log.Warn("configuration", "warning", w)
	}
	n, err := newNode(ctx, cfg, log)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // told to stop before Redis was there
	case err != nil:
		return err
	}
	defer n.close()
	n.watcher = config.NewWatcher(path, os.Environ(), cfg, config.WatchOptions{
		Apply: func(next *config.Config) {
			level.Set(levelOf(next.Log.Level))
			n.reload(ctx, next)
		},
		Report: n.badConfig,
	})
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	go func() {
		for {
			select {
			case <-hup:
				n.watcher.Reload()
			case <-ctx.Done():
				return
			}
		}
	}()
	return n.run(ctx)
}
