// Package redistest runs a suite of tests on every kind of Redis that the line must work on.
//
// The real servers are started at the first use and shared by all tests of a test binary; [Main] stops
// them. Tests share their keys too: each picks a room name of its own, and nobody flushes.
//
// Where no redis-server is found the suites on real servers are skipped and say so; with CI=true or
// ROPELINE_TEST_REDIS=required they fail instead.
package redistest

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox"
)

// Each runs the suite three times: on an in-process stand-in of its own (subtest "miniredis"), on a real
// server ("redis") and on a cluster of three masters ("cluster"). The client never repeats a command by
// itself and is closed when the subtest ends.
func Each(t *testing.T, run func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { run(t, use(t, Embedded(t))) })
	t.Run("redis", func(t *testing.T) { run(t, use(t, Server(t).Client())) })
	t.Run("cluster", func(t *testing.T) { run(t, use(t, Cluster(t).Client())) })
}

// Path returns the server binary to test with. Without one it skips the test, or fails it where a real
// Redis is required.
func Path(t testing.TB) string {
	t.Helper()
	path, ok := redisbox.Find()
	switch {
	case ok:
	case os.Getenv("CI") == "true" || os.Getenv("ROPELINE_TEST_REDIS") == "required":
		t.Fatal("no redis-server found, and one is required here; scripts/test fetches one")
	default:
		t.Skip("no redis-server found; scripts/test fetches one")
	}
	return path
}

// Embedded returns a client of a new in-process stand-in, which ends with the test.
func Embedded(t testing.TB) *redis.Client {
	t.Helper()
	m, err := redisbox.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return redisbox.Client(m.Addr())
}

// Server returns the real server that the tests of this binary share. Whoever wants to stop or pause one
// takes it from [Private].
func Server(t testing.TB) *redisbox.Server {
	t.Helper()
	return get(t, &server, func(ctx context.Context, path string) (*redisbox.Server, error) {
		return redisbox.Start(ctx, path)
	})
}

// Cluster returns the cluster that the tests of this binary share.
func Cluster(t testing.TB) *redisbox.Cluster {
	t.Helper()
	return get(t, &cluster, redisbox.StartCluster)
}

// Private starts a real server for one test, to do with as it likes. It ends with the test.
func Private(t testing.TB, extra ...string) *redisbox.Server {
	t.Helper()
	s, err := redisbox.Start(context.Background(), Path(t), extra...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Main runs the tests and stops the shared servers. Use it as the TestMain of a package that shares any:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M) {
	code := m.Run()
	server.stop()
	cluster.stop()
	os.Exit(code)
}

// shared is a server that is started once, at its first use.
type shared[S interface{ Stop() }] struct {
	mu      sync.Mutex
	started bool
	it      S
	err     error
}

// A test binary is one program, and its tests have nothing else in common that could hold these.
var (
	server  shared[*redisbox.Server]
	cluster shared[*redisbox.Cluster]
)

func get[S interface{ Stop() }](t testing.TB, s *shared[S], start func(context.Context, string) (S, error)) S {
	t.Helper()
	path := Path(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.it, s.err = start(context.Background(), path)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.it
}

func (s *shared[S]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started && s.err == nil {
		s.it.Stop()
	}
}

func use[C redis.UniversalClient](t testing.TB, rdb C) redis.UniversalClient {
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
