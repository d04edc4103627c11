package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ropeline/cmd/ropeline/crowd"
)

func crowdCommand() *cobra.Command {
	var cfg crowd.Config
	c := &cobra.Command{
		Use:   "crowd --target URL --visitors N",
		Short: "Send a simulated crowd to a waiting room, and judge what it does",
		Long: "People arrive in a burst, keep their cookies, poll when told to, reload, leave and come back; cheats knock without a\n" +
			"token. At the end the crowd judges the room by what its visitors hold in their hands, and exits 1 if a promise was\n" +
			"broken: admission order, the active limit, a place that got worse, a request that passed without a token, a place\n" +
			"served twice, a visitor lost. With --buy the admitted hold and pay seats of the booking core's event that the target\n" +
			"is a page of, and a seat in two hands at once is a broken promise too. Send it only to a site of your own.",
		Args: noArgs,
	}
	cfg.AddFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if cfg.Target == "" {
			return fmt.Errorf("%w: --target URL is needed; see %s --help", errUsage, c.CommandPath())
		}
		cfg.Progress = c.ErrOrStderr()
		report, err := crowd.Run(c.Context(), cfg)
		if errors.Is(err, crowd.ErrConfig) {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		if err != nil {
			return err
		}
		return judge(c.OutOrStdout(), c.ErrOrStderr(), report, cfg.JSON)
	}
	return c
}

// judge prints a report, and fails if a promise was broken.
func judge(out, complaints io.Writer, report crowd.Report, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(report); err != nil {
			return err
		}
	} else if err := report.WriteText(out); err != nil {
		return err
	}
	broken := report.Broken()
	for _, b := range broken {
		fmt.Fprintln(complaints, "broken: "+b)
	}
	if len(broken) > 0 {
		return errSaid
	}
	return nil
}
