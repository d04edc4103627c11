package booking

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// OpenHolds opens the pool that holds go through, of at most max connections (0: 4). It is kept apart from the pool of
// everything else, so that a crowd that loses can't keep a payment's callback waiting. It connects when first used.
func OpenHolds(ctx context.Context, url string, max int32) (*pgxpool.Pool, error) {
	return open(ctx, url, "ropeline holds", orDefault(max, 4), 3*time.Second)
}

// OpenWork opens the pool for everything but holds, of at most max connections (0: 8). It connects when first used.
func OpenWork(ctx context.Context, url string, max int32) (*pgxpool.Pool, error) {
	return open(ctx, url, "ropeline work", orDefault(max, 8), 10*time.Second)
}

func orDefault(n, value int32) int32 {
	if n > 0 {
		return n
	}
	return value
}

// open sets what every connection needs: a lock that is not to be had within 2 s is an answer (503), not a wait; plans are
// made once for all parameters, since planning costs more than these statements do, and by index, since a plan that was made
// while a table was empty outlives its emptiness.
func open(ctx context.Context, url, name string, max int32, statement time.Duration) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("booking: postgres: %w", err)
	}
	cfg.MaxConns = max
	cfg.MaxConnLifetime, cfg.MaxConnIdleTime, cfg.HealthCheckPeriod = time.Hour, 10*time.Minute, 30*time.Second
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 3 * time.Second
	}
	settings := fmt.Sprintf(`SELECT set_config('application_name', '%s', false), set_config('plan_cache_mode', 'force_generic_plan', false),
	       set_config('lock_timeout', '2s', false), set_config('statement_timeout', '%dms', false),
	       set_config('idle_in_transaction_session_timeout', '5s', false), set_config('enable_seqscan', 'off', false), set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false),
	       set_config('TimeZone', 'UTC', false)`, name, statement.Milliseconds())
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, settings, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("booking: postgres: %w", err)
	}
	return pool, nil
}

// answerTime bounds what a caller waits for Postgres. The server's own limits are of no use while it stands still.
const answerTime = 5 * time.Second

// within bounds what follows by answerTime. What takes longer ends in [ErrAway].
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, answerTime, ErrAway)
}

// code is the SQLSTATE of an error of Postgres, "" if it is none.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// retryable says that the transaction was rolled back and that the same one may well succeed now: a deadlock or a
// serialization failure.
func retryable(err error) bool {
	c := code(err)
	return c == "40P01" || c == "40001"
}

// broken says that a rule of the schema stopped what a guard above it should have: somebody must look.
func broken(err error) bool {
	switch code(err) {
	case "P0BK1", "23505", "23514":
		return true
	}
	return false
}

// cause makes of an error of Postgres what the caller can act on: [ErrBusy], [ErrAway], the caller's own end, or the error.
func cause(ctx context.Context, err error) error {
	c := code(err)
	var dial *pgconn.ConnectError
	var network net.Error
	switch {
	case err == nil:
		return nil
	case c == "55P03", c == "57014", c == "53300", c == "25P03", retryable(err):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case strings.HasPrefix(c, "08"), strings.HasPrefix(c, "57P"), strings.HasPrefix(c, "58"), c == "25006":
		return fmt.Errorf("%w: %w", ErrAway, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c == "" && (errors.As(err, &dial) || errors.As(err, &network) || pgconn.SafeToRetry(err) || closed(err)):
		return fmt.Errorf("%w: %w", ErrAway, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// closed says that the connection ended under a statement.
func closed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unexpected EOF") || strings.Contains(text, "conn closed") || strings.Contains(text, "closed pool") ||
		strings.Contains(text, "connection reset") || strings.Contains(text, "broken pipe")
}
