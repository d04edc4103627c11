package booking

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's way to Postgres, which goose takes
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"ropeline/booking/migrations"
)

// Migrate brings the schema of the database at url up to date, and returns its version before and after. Several at once
// wait for each other. It needs a direct connection: a pooler in transaction mode loses the lock.
func Migrate(ctx context.Context, url string) (from, to int64, err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	defer func() { _ = db.Close() }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithSessionLocker(locker), goose.WithTableName("bk_schema"))
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	if from, err = p.GetDBVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	if _, err = p.Up(ctx); err != nil {
		return from, from, fmt.Errorf("migrate: %w", err)
	}
	to, err = p.GetDBVersion(ctx)
	return from, to, err
}

// SchemaVersion is the version of the database's schema, and the one that this program needs. A database that was never
// migrated has version 0.
func SchemaVersion(ctx context.Context, pool *pgxpool.Pool) (have, need int64, err error) {
	steps, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return 0, 0, err
	}
	need = int64(len(steps))
	var there bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass('bk_schema') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, need, cause(ctx, err)
	}
	err = pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM bk_schema WHERE is_applied`).Scan(&have)
	return have, need, cause(ctx, err)
}
