package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"ropeline/booking"
)

func auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit {--config FILE | --postgres URL}",
		Short: "Check every rule of the booking core against what is in the database",
		Long: "Looks whether every seat, booking, payment and refund is as it must be, in one consistent picture, and may run beside a sale\n" +
			"or on a replica. Prints \"audit: clean\" and exits 0, or a line for each broken rule and exits 1.",
		Args: noArgs,
	}
	flags := addDatabaseFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return flags.withPool(c, func(pool *pgxpool.Pool) error {
			found, err := booking.Audit(c.Context(), pool)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				_, err = fmt.Fprintln(c.OutOrStdout(), "audit: clean")
				return err
			}
			for _, f := range found {
				fmt.Fprintf(c.OutOrStdout(), "audit: %s: %s\n", f.Rule, f.What)
			}
			return errSaid
		})
	}
	return c
}
