package pgbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestServer_KeepsItsAddressAndWhatWasCommittedOverARestart(t *testing.T) {
	ctx := t.Context()
	s := pgtest.Private(t, pgbox.Config{Fast: true})
	db := connect(t, s.URL())
	run(t, db, "CREATE TABLE kept (n int)")
	run(t, db, "INSERT INTO kept VALUES (7)")
	url := s.URL()

	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("got another address after a restart")
	}
	if err := db.Ping(ctx); err == nil {
		t.Error("a session outlived the restart")
	}
	if got := ask[int](t, connect(t, url), "SELECT n FROM kept"); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}

func TestServer_KillEndsItsSessionsInTheMiddleOfAStatement(t *testing.T) {
	s := pgtest.Private(t, pgbox.Config{Fast: true})
	db := connect(t, s.URL())
	busy, ended := start(db, "SELECT count(*) FROM generate_series(1, 1e12)")
	waitBusy(t, s, busy)
	s.Kill()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the statement succeeded")
		}
	case <-time.After(20 * time.Second):
		t.Error("a session goes on without its server")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Errorf("restart after a kill: %v", err)
	}
}

func TestServer_PausedOneAnswersNothingUntilResumed(t *testing.T) {
	s := pgtest.Private(t, pgbox.Config{Fast: true})
	db := connect(t, s.URL())
	s.Pause()
	answer := make(chan error, 1)
	go func() { answer <- db.Ping(context.Background()) }()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if other, err := pgx.Connect(short, s.URL()); err == nil {
		_ = other.Close(t.Context())
		t.Error("a paused server took a connection")
	}
	select {
	case err := <-answer:
		t.Errorf("a session of a paused server answered: %v", err)
	default:
	}
	s.Resume()
	if err := <-answer; err != nil {
		t.Errorf("after resuming: %v", err)
	}
}

func TestServer_StopEndsAPausedOneAndRemovesItsFiles(t *testing.T) {
	temp := filepath.Dir(pgtest.Dir(t))
	t.Setenv("TMPDIR", temp)
	s := pgtest.Private(t, pgbox.Config{Fast: true})
	connect(t, s.URL())
	if left, _ := os.ReadDir(temp); len(left) != 1 {
		t.Fatalf("got %v while it runs, want one folder", left)
	}
	s.Pause()
	s.Stop()
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if db, err := pgx.Connect(t.Context(), s.URL()); err == nil {
		_ = db.Close(t.Context())
		t.Error("a stopped server took a connection")
	}
}

func TestServer_FolderIsKeptAndServesTheNextStart(t *testing.T) {
	dir := pgtest.Dir(t)
	first := pgtest.Private(t, pgbox.Config{Dir: dir})
	run(t, connect(t, first.URL()), "CREATE DATABASE shop")
	run(t, connect(t, first.URLOf("shop")), "CREATE TABLE kept AS SELECT 7 AS n")
	first.Stop()

	next := pgtest.Private(t, pgbox.Config{Dir: dir})
	db := connect(t, next.URLOf("shop"))
	if got := ask[int](t, db, "SELECT n FROM kept"); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	if got := ask[string](t, db, "SELECT concat_ws(' ', current_setting('fsync'), current_setting('synchronous_commit'))"); got != "on on" {
		t.Errorf("got fsync and synchronous_commit %s, want on on", got)
	}
}

func TestServer_OneThatIsDurableAsksForItsPassword(t *testing.T) {
	s := pgtest.Private(t, pgbox.Config{})
	config, err := pgx.ParseConfig(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "guessed"
	if db, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		_ = db.Close(t.Context())
		t.Error("let somebody in with a guessed password")
	}
	connect(t, s.URL())
}

func TestServer_ListensOnTheLoopbackAddressAlone(t *testing.T) {
	db := connect(t, pgtest.Server(t).URL())
	for setting, want := range map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": ""} {
		if got := ask[string](t, db, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("got %s %q, want %q", setting, got, want)
		}
	}
}

func TestServer_TakesArgumentsAndHasTheSettingsThatAreTold(t *testing.T) {
	t.Setenv("PGPORT", "1")
	t.Setenv("PGOPTIONS", "-c work_mem=1MB")
	t.Setenv("LC_ALL", "")
	s := pgtest.Private(t, pgbox.Config{Fast: true, Args: []string{"-c", "work_mem=7MB"}})
	os.Unsetenv("PGPORT")
	os.Unsetenv("PGOPTIONS")
	db := connect(t, s.URL())
	for setting, want := range map[string]string{
		"work_mem": "7MB", "max_connections": "300", "fsync": "off", "synchronous_commit": "on",
		"full_page_writes": "off", "server_encoding": "UTF8", "lc_messages": "C", "TimeZone": "UTC",
	} {
		if got := ask[string](t, db, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("got %s %q, want %q", setting, got, want)
		}
	}
	if got := ask[string](t, db, "SELECT current_user || ' ' || usesuper FROM pg_user WHERE usename = current_user"); got != "ropeline true" {
		t.Errorf("got user %s, want the superuser ropeline", got)
	}
}

func TestStart_FolderOfAnotherMajorIsRefusedAndNotTouched(t *testing.T) {
	dir := pgtest.Dir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	version := filepath.Join(dir, "PG_VERSION")
	if err := os.WriteFile(version, []byte("9.6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := pgbox.Start(t.Context(), pgtest.Bin(t), pgbox.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "Postgres 9.6") {
		t.Errorf("got %v, want an error that names the folder and the version", err)
	}
	left, _ := os.ReadDir(dir)
	if text, _ := os.ReadFile(version); len(left) != 1 || string(text) != "9.6\n" {
		t.Errorf("it was touched: %v", left)
	}
}

func TestStart_FolderWithOtherThingsIsRefused(t *testing.T) {
	dir := pgtest.Dir(t)
	if err := os.MkdirAll(filepath.Join(dir, "photos"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := pgbox.Start(t.Context(), pgtest.Bin(t), pgbox.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the folder", err)
	}
}

func TestStart_SecondServerInAFolderIsRefused(t *testing.T) {
	dir := pgtest.Dir(t)
	s := pgtest.Private(t, pgbox.Config{Dir: dir, Fast: true})
	_, err := pgbox.Start(t.Context(), pgtest.Bin(t), pgbox.Config{Dir: dir, Fast: true})
	if err == nil || !strings.Contains(err.Error(), "postmaster.pid") {
		t.Errorf("got %v, want an error that names the lock file", err)
	}
	connect(t, s.URL())
}

func TestStart_ErrorShowsTheLog(t *testing.T) {
	_, err := pgbox.Start(t.Context(), pgtest.Bin(t), pgbox.Config{Fast: true, Args: []string{"-c", "no_such_setting=1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got %v, want an error that quotes the log", err)
	}
}

func TestStart_FolderWithoutProgramsIsAnError(t *testing.T) {
	if _, err := pgbox.Start(t.Context(), t.TempDir(), pgbox.Config{}); err == nil {
		t.Error("started a server that is not there")
	}
}

func TestStart_GivesUpWithItsContext(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"initdb":   "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'initdb (PostgreSQL) 17.1'; else mkdir \"$2\"; fi\n",
		"postgres": "#!/bin/sh\nexec sleep 60\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(t, bin)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := pgbox.Start(ctx, bin, pgbox.Config{Fast: true})
	if err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("got %v, want the end of its context", err)
	}
}

func TestAt_StandsForAServerElsewhereWithoutItsPasswordInAnError(t *testing.T) {
	s, err := pgbox.At("postgres://me:secret@db.test:5433/main?sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.URLOf("other"), "postgres://me:secret@db.test:5433/other?sslmode=require"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.Kill()
	s.Pause()
	s.Resume()
	s.Stop()
	if err := s.Restart(t.Context()); err == nil {
		t.Error("restarted a server elsewhere")
	}
	for _, bad := range []string{"mysql://me:secret@db.test/main", "postgres://me:secret@db.test:port/main"} {
		if _, err := pgbox.At(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want an error without the password", err)
		}
	}
}

func TestServer_SessionsThatAreManyAreTaken(t *testing.T) {
	s := pgtest.Server(t)
	var all []*pgx.Conn
	for range 150 {
		all = append(all, connect(t, s.URL()))
	}
	if got := ask[int](t, all[0], "SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'"); got < len(all) {
		t.Errorf("got %d sessions, want %d", got, len(all))
	}
}

// open lets everybody walk to dir and to its parent, which the testing package makes for its owner alone.
func open(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
