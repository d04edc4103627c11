package pgbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ropeline/internal/pgbox"
)

// connect opens a session that goes with the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // politely, but not for long: its server may be gone
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = db.Close(ctx)
	})
	return db
}

func run(t *testing.T, db *pgx.Conn, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, db *pgx.Conn, sql string) T {
	t.Helper()
	var answer T
	if err := db.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// start runs sql in the background. It returns the number of the session's process and, later, what came of it.
func start(db *pgx.Conn, sql string) (pid uint32, ended <-chan error) {
	result := make(chan error, 1)
	go func() {
		_, err := db.Exec(context.Background(), sql)
		result <- err
	}()
	return db.PgConn().PID(), result
}

// waitBusy waits until the session of the process is at work on a statement.
func waitBusy(t *testing.T, s *pgbox.Server, pid uint32) {
	t.Helper()
	db := connect(t, s.URL())
	within(t, 10*time.Second, "the statement to run", func() bool {
		var busy bool
		err := db.QueryRow(t.Context(), "SELECT state = 'active' FROM pg_stat_activity WHERE pid = $1", pid).Scan(&busy)
		return err == nil && busy
	})
}

// within tries until done, and fails the test when that takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond) // other processes are at work: nothing here can be waited on
	}
}
