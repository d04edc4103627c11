// Package pgtest gives tests a real Postgres.
//
// The server is started at its first use and shared by all tests of a test binary; [Main] stops it. Tests
// share its roles too, but each makes a database of its own.
//
// Where no Postgres is found the tests are skipped and say so; with CI=true or ROPELINE_TEST_POSTGRES=required
// they fail instead. ROPELINE_POSTGRES_URL names a server to share that is already there.
package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"ropeline/internal/pgbox"
)

// urlVariable names the environment variable with the URL of a server, of which the user has to be a superuser.
const urlVariable = "ROPELINE_POSTGRES_URL"

// Bin returns the folder of binaries to test with. Without one it skips the test, or fails it where a real
// Postgres is required.
func Bin(tb testing.TB) string {
	tb.Helper()
	bin, ok := pgbox.Find()
	switch {
	case ok:
	case os.Getenv("CI") == "true" || os.Getenv("ROPELINE_TEST_POSTGRES") == "required":
		tb.Fatal("no postgres found, and one is required here; scripts/test fetches one")
	default:
		tb.Skip("no postgres found; scripts/test fetches one")
	}
	return bin
}

// Server returns the server that the tests of this binary share. Whoever wants to stop or pause one takes it
// from [Private].
func Server(tb testing.TB) *pgbox.Server {
	tb.Helper()
	if url := os.Getenv(urlVariable); url != "" {
		s, err := pgbox.At(url)
		if err != nil {
			tb.Fatalf("%s: %v", urlVariable, err)
		}
		return s
	}
	bin := Bin(tb)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.started {
		shared.started = true
		shared.server, shared.err = pgbox.Start(context.Background(), bin, pgbox.Config{Fast: true})
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Private starts a server for one test, to do with as it likes. It ends with the test.
func Private(tb testing.TB, cfg pgbox.Config) *pgbox.Server {
	tb.Helper()
	s, err := pgbox.Start(context.Background(), Bin(tb), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Dir returns a new folder for the Dir of a [pgbox.Config], which goes with the test. The one of
// [testing.T.TempDir] won't do for root: nobody else can walk to it.
func Dir(tb testing.TB) string {
	tb.Helper()
	parent, err := os.MkdirTemp("", "ropeline-pgtest-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(parent, "data")
}

// Main runs the tests and stops the shared server. Use it as the TestMain of a package that uses [Server]:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

// Stop stops the shared server, for a TestMain that has more to do than [Main] does.
func Stop() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		shared.server.Stop()
	}
}

// shared is the one server of the test binary, which is one program whose tests have nothing else in common
// that could hold it.
var shared struct {
	mu      sync.Mutex
	started bool
	server  *pgbox.Server
	err     error
}
