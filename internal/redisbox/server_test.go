package redisbox_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox"
	"ropeline/internal/redisbox/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestFind_TheVariableDecides(t *testing.T) {
	dir := t.TempDir()
	inPath, named := filepath.Join(dir, "valkey-server"), filepath.Join(dir, "mine")
	for _, file := range []string{inPath, named} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for _, c := range []struct {
		variable, path string
		ok             bool
	}{
		{"", inPath, true},
		{named, named, true},
		{filepath.Join(dir, "absent"), "", false},
	} {
		t.Setenv(redisbox.PathVariable, c.variable)
		if path, ok := redisbox.Find(); path != c.path || ok != c.ok {
			t.Errorf("with %q: got %q, %v, want %q, %v", c.variable, path, ok, c.path, c.ok)
		}
	}
}

func TestServer_KeepsItsAddressAndLosesItsDataOverARestart(t *testing.T) {
	ctx := t.Context()
	s := redistest.Private(t)
	rdb := s.Client()
	defer rdb.Close()
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	addr := s.Addr()
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if s.Addr() != addr {
		t.Errorf("got address %s after a restart, want %s", s.Addr(), addr)
	}
	again := s.Client()
	defer again.Close()
	if n, err := again.DBSize(ctx).Result(); n != 0 || err != nil {
		t.Errorf("got %d keys and %v after a restart, want none", n, err)
	}
}

func TestServer_PausedOneAnswersNothingUntilResumed(t *testing.T) {
	ctx := t.Context()
	s := redistest.Private(t)
	rdb := s.Client()
	defer rdb.Close()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := rdb.Ping(short).Err(); err == nil {
		t.Error("a paused server answered")
	}
	s.Resume()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Errorf("after resuming: %v", err)
	}
}

func TestServer_StopEndsAPausedOneAndRemovesItsFiles(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := redistest.Private(t)
	if left, _ := os.ReadDir(temp); len(left) != 1 {
		t.Fatalf("got %d folders while it runs, want 1", len(left))
	}
	s.Pause()
	s.Stop()
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	rdb := s.Client()
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server answered")
	}
}

func TestServer_TakesDirectives(t *testing.T) {
	s := redistest.Private(t, "--maxmemory", "7mb")
	rdb := s.Client()
	defer rdb.Close()
	got, err := rdb.ConfigGet(t.Context(), "maxmemory*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got["maxmemory"] != "7340032" || got["maxmemory-policy"] != "noeviction" {
		t.Errorf("got %v, want 7340032 bytes and noeviction", got)
	}
}

func TestStart_ErrorShowsTheLog(t *testing.T) {
	_, err := redisbox.Start(t.Context(), redistest.Path(t), "--no-such-directive", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("got %v, want an error that quotes the log", err)
	}
}

func TestStart_BinaryThatIsNotThereIsAnError(t *testing.T) {
	if _, err := redisbox.Start(t.Context(), filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("started a file that is not there")
	}
}

func TestStart_GivesUpWithItsContext(t *testing.T) {
	silent := filepath.Join(t.TempDir(), "silent")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := redisbox.Start(ctx, silent); err == nil {
		t.Error("a program that never answers counted as started")
	}
}

// A test binary run with this variable starts a server, prints its address and waits to be killed.
const orphanVariable = "REDISBOX_TEST_ORPHAN"

func TestServer_EndsWithTheProcessThatStartedIt(t *testing.T) {
	path := redistest.Path(t)
	if os.Getenv(orphanVariable) != "" {
		s, err := redisbox.Start(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("addr " + s.Addr() + " ")
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), orphanVariable+"=1", "TMPDIR="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	addr := word(t, out, "addr")
	rdb := redisbox.Client(addr)
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	gone(t, rdb)
}

func TestCluster_TakesWritesInEverySlotAndSaysSoOnEveryNode(t *testing.T) {
	ctx := t.Context()
	c := redistest.Cluster(t)
	rdb := c.Client()
	defer rdb.Close()
	if _, ok := redis.UniversalClient(rdb).(*redis.ClusterClient); !ok {
		t.Fatalf("got a %T", rdb)
	}
	for _, addr := range c.Addrs() {
		node := redisbox.Client(addr)
		info, err := node.ClusterInfo(ctx).Result()
		_ = node.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_size:3"} {
			if !strings.Contains(info, want+"\r\n") {
				t.Errorf("%s says\n%s\nwant %s", addr, info, want)
			}
		}
	}
	for _, room := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		key := "rope:{cluster-test-" + room + "}:seq"
		if err := rdb.Set(ctx, key, 1, time.Minute).Err(); err != nil {
			t.Errorf("set %s: %v", key, err)
		}
	}
}

func TestSentinel_PromotesTheReplicaWhenTheMasterDies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a failover")
	}
	ctx := t.Context()
	s, err := redisbox.StartSentinel(ctx, redistest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	rdb := s.Client()
	defer rdb.Close()
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := rdb.Wait(ctx, 1, 5*time.Second).Result(); n != 1 || err != nil {
		t.Fatalf("the replica has not got the write: %d, %v", n, err)
	}
	s.Master.Kill()
	within(t, 30*time.Second, "a write to the new master", func() bool {
		return rdb.Set(ctx, "k2", "v", 0).Err() == nil
	})
	if v, err := rdb.Get(ctx, "k").Result(); v != "v" || err != nil {
		t.Errorf("got %q, %v after the failover, want v", v, err)
	}
}

func TestEmbedded_TimeToLiveRunsDownByItself(t *testing.T) {
	ctx := t.Context()
	rdb := redistest.Embedded(t)
	defer rdb.Close()
	if err := rdb.Set(ctx, "k", "v", 20*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the key to expire", func() bool {
		return rdb.Get(ctx, "k").Err() == redis.Nil
	})
}
