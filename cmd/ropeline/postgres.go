package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"ropeline/booking"
	"ropeline/internal/pgbox"
)

// postgresFolder is where booking.postgres: auto keeps its data, below the folder that Ropeline is started in.
const postgresFolder = "ropeline-data"

// addressName is the file in that folder with the server's address, for the commands that look into the same data while it
// runs. It holds a password: only its owner reads it.
const addressName = "ropeline-address"

// database is the Postgres of a booking core.
type database struct {
	url  string // may hold a password: never logged
	what string // for people: what it is
	auto string // the folder of its data, if it is one of our own
	stop func() // ends what was started here
}

// openDatabase finds what booking.postgres names, and starts it where it says auto. It doesn't connect to an address.
func openDatabase(ctx context.Context, target string, log *slog.Logger) (*database, error) {
	if target != "auto" {
		return &database{url: target, what: "Postgres", stop: func() {}}, nil
	}
	folder, err := filepath.Abs(postgresFolder)
	if err != nil {
		return nil, err
	}
	if url, ok := running(ctx, folder); ok {
		return &database{url: url, what: "the Postgres that runs in " + folder, auto: folder, stop: func() {}}, nil
	}
	bin, ok := pgbox.Find()
	if !ok {
		return nil, errors.New("booking.postgres: auto found no Postgres on this machine: install one, or give the address of a server")
	}
	log.Info("starting Postgres", "bin", bin, "data", folder)
	server, err := pgbox.Start(ctx, bin, pgbox.Config{Dir: folder})
	if err != nil {
		return nil, fmt.Errorf("booking.postgres: auto: %w", err)
	}
	note := filepath.Join(folder, addressName)
	if err := os.WriteFile(note, []byte(server.URL()), 0o600); err != nil {
		log.Warn("other commands can't find this Postgres", "err", err)
	}
	return &database{url: server.URL(), what: "a Postgres of our own in " + folder, auto: folder, stop: func() {
		_ = os.Remove(note) // a stale one is recognized, too
		server.Stop()
	}}, nil
}

// running is the address of the server that another process runs in the folder.
func running(ctx context.Context, folder string) (url string, ok bool) {
	text, err := os.ReadFile(filepath.Join(folder, addressName))
	if err != nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, string(text))
	if err != nil {
		return "", false
	}
	defer c.Close(ctx)
	var data string // another server may have its port by now
	err = c.QueryRow(ctx, `SELECT current_setting('data_directory')`).Scan(&data)
	return string(text), err == nil && sameFolder(data, folder)
}

func sameFolder(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// errSchema means that the database's tables are not those that this program works with.
var errSchema = errors.New("the database's tables are not ready")

// ready brings the tables of a Postgres of our own up to date, and sees to it that those of another are. It waits while
// Postgres is away, until ctx ends.
func (d *database) ready(ctx context.Context, log *slog.Logger) error {
	return await(ctx, log, "Postgres", "the booking core", booking.ErrAway, func() error { return d.check(ctx, log) })
}

func (d *database) check(ctx context.Context, log *slog.Logger) error {
	if d.auto != "" {
		_, _, err := booking.Migrate(ctx, d.url)
		return err
	}
	pool, err := booking.OpenWork(ctx, d.url, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	have, need, err := booking.SchemaVersion(ctx, pool)
	switch {
	case err != nil:
		return fmt.Errorf("booking.postgres: %w", err)
	case have < need:
		return fmt.Errorf("booking.postgres: %w: they have version %d and this program needs %d; run ropeline migrate", errSchema, have, need)
	case have > need:
		log.Warn("the database's tables are of a newer Ropeline", "version", have, "ours", need)
	}
	return nil
}

// await repeats work while its store is away, which work's error tells, so that a process may be started before the store.
func await(ctx context.Context, log *slog.Logger, store, what string, away error, work func() error) error {
	for said := false; ; said = true {
		err := work()
		if err == nil || !errors.Is(err, away) {
			return err
		}
		if !said {
			log.Error("waiting for "+store, "for", what, "err", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}
