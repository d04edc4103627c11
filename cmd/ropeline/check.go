package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ropeline/cmd/ropeline/config"
)

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate a configuration file",
		Long: "Prints every problem of the file and of ROPELINE_* variables on a line of its own (key: what is wrong, what is\n" +
			"allowed) and exits 1; or prints what is allowed but unwise, and exits 0.",
		Args: noArgs,
	}
	path := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := loadConfig(c, *path)
		if err != nil {
			return err
		}
		for _, w := range config.Warnings(cfg) {
			fmt.Fprintln(c.ErrOrStderr(), "warning: "+w)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: ok, %d rooms\n", *path, len(cfg.Rooms))
		return nil
	}
	return c
}
