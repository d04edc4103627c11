package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ropeline/booking"
)

func migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate {--config FILE | --postgres URL}",
		Short: "Bring the booking core's tables up to date",
		Long: "Makes or changes the tables of the booking core (schema bk). Several at once wait for each other, and a second run changes\n" +
			"nothing. It needs a direct connection, not a pooler in transaction mode. Only forward: take a copy first.",
		Args: noArgs,
	}
	flags := addDatabaseFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, err := flags.open(c)
		if err != nil {
			return err
		}
		defer d.stop()
		from, to, err := booking.Migrate(c.Context(), d.url)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("migrated from version %d to %d", from, to)
		if from == to {
			text = fmt.Sprintf("up to date at version %d", to)
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), text)
		return err
	}
	return c
}
