// Command ropeline is a virtual waiting room at the edge: see the README.
//
// Exit codes: 0 all went well; 1 it failed, a configuration has problems, or a promise was broken; 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by release builds (-ldflags "-X main.version=...").
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errUsage marks what is wrong with the command line itself.
var errUsage = errors.New("usage")

// run works through one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := commands()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "ropeline: %v\n", err)
		return 2
	case errors.Is(err, errSaid):
		return 1
	}
	fmt.Fprintf(stderr, "ropeline: %v\n", err)
	return 1
}

// errSaid is a failure that the command has already told.
var errSaid = errors.New("said")

func commands() *cobra.Command {
	root := &cobra.Command{
		Use:   "ropeline",
		Short: "A virtual waiting room at the edge",
		Long: "Ropeline stands in front of a ticketing site as a reverse proxy. When more people come than the site can serve,\n" +
			"each gets a place in line, and is let through in order at the rate the organizer sets.\n\n" +
			"Exit codes: 0 all went well; 1 it failed, a configuration has problems, or a promise was broken; 2 wrong usage.",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w; see %s --help", errUsage, err, c.CommandPath())
	})
	root.AddCommand(serveCommand(), bookingCommand(), migrateCommand(), seedCommand(), auditCommand(), checkCommand(), demoCommand(), crowdCommand(), keysCommand())
	return root
}

func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = ", did you mean " + near[0] + "?"
	}
	return fmt.Errorf("%w: unknown command %q%s; see ropeline --help", errUsage, args[0], hint)
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: unknown argument %q; see %s --help", errUsage, args[0], c.CommandPath())
	}
	return nil
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
