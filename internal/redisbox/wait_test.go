package redisbox_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

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

// gone waits until the server behind rdb answers no more.
func gone(t *testing.T, rdb *redis.Client) {
	t.Helper()
	within(t, 10*time.Second, "the server to end", func() bool {
		return rdb.Ping(t.Context()).Err() != nil
	})
}

// word reads from out up to the given word and returns the one after it.
func word(t *testing.T, out io.Reader, after string) string {
	t.Helper()
	for {
		var w string
		if _, err := fmt.Fscan(out, &w); err != nil {
			t.Fatalf("no %q printed: %v", after, err)
		}
		if w == after {
			if _, err := fmt.Fscan(out, &w); err != nil {
				t.Fatal(err)
			}
			return w
		}
	}
}
