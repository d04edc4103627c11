package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"ropeline/booking/seed"
)

func seedCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "seed {--config FILE | --postgres URL} --file SEED.yaml",
		Short: "Load halls, events and prices into the booking core",
		Long: "Reads halls (sections, rows, seats), events and prices from a file, and makes or updates them. Run it as often as you like:\n" +
			"seats that are held or sold are never touched. Prints every problem of the file on a line of its own and exits 1.",
		Args: noArgs,
	}
	flags := addDatabaseFlags(c)
	file := c.Flags().StringP("file", "f", "", "seed file (YAML); required")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *file == "" {
			return fmt.Errorf("%w: --file SEED.yaml is needed; see %s --help", errUsage, c.CommandPath())
		}
		data, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		plan, err := seed.Parse(data)
		if problems := (seed.Problems)(nil); errors.As(err, &problems) {
			fmt.Fprintln(c.ErrOrStderr(), problems)
			return errSaid
		} else if err != nil {
			return err
		}
		return flags.withPool(c, func(pool *pgxpool.Pool) error {
			report, err := plan.Apply(c.Context(), pool)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), report)
			return err
		})
	}
	return c
}
