package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"ropeline/booking"
	"ropeline/cmd/ropeline/config"
)

// databaseFlags say which database a command works on.
type databaseFlags struct{ config, postgres *string }

func addDatabaseFlags(c *cobra.Command) databaseFlags {
	return databaseFlags{
		config:   c.Flags().StringP("config", "c", "", "configuration file (YAML) whose booking.postgres is meant"),
		postgres: c.Flags().String("postgres", "", "address of the database, instead of --config: postgres://..., or auto"),
	}
}

// open finds the database, and starts it where the address is auto.
func (f databaseFlags) open(c *cobra.Command) (*database, error) {
	if (*f.config == "") == (*f.postgres == "") {
		return nil, fmt.Errorf("%w: either --config FILE or --postgres URL is needed; see %s --help", errUsage, c.CommandPath())
	}
	target := *f.postgres
	if target == "" {
		cfg, err := loadConfig(c, *f.config)
		if err != nil {
			return nil, err
		}
		target = cfg.Booking.Postgres
	} else if message := config.BadPostgres(target); message != "" {
		return nil, fmt.Errorf("%w: --postgres %s", errUsage, message)
	}
	return openDatabase(c.Context(), target, newLogger(c.ErrOrStderr(), config.Log{Level: "warn", Format: "text"}, new(slog.LevelVar)))
}

// withPool opens the database for the time of do.
func (f databaseFlags) withPool(c *cobra.Command, do func(*pgxpool.Pool) error) error {
	d, err := f.open(c)
	if err != nil {
		return err
	}
	defer d.stop()
	pool, err := d.pool(c.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(pool)
}

// pool connects to a database whose tables must be those that this program works with.
func (d *database) pool(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := booking.OpenWork(ctx, d.url, 2)
	if err != nil {
		return nil, err
	}
	have, need, err := booking.SchemaVersion(ctx, pool)
	if err == nil && have < need {
		err = fmt.Errorf("%w: they have version %d and this program needs %d; run ropeline migrate", errSchema, have, need)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
