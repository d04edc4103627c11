//go:build unix

package pgbox_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
	"ropeline/internal/process"
)

// A test binary run with this variable starts a server, prints its address and waits to be killed.
const orphanVariable = "PGBOX_TEST_ORPHAN"

func TestServer_EndsWithTheProcessThatStartedItAndSoDoItsSessions(t *testing.T) {
	bin := pgtest.Bin(t)
	if os.Getenv(orphanVariable) != "" {
		orphan(bin, os.Getenv(orphanVariable))
	}
	for _, kind := range []string{"fast", "kept"} {
		t.Run(kind, func(t *testing.T) {
			dir := pgtest.Dir(t)
			parent := exec.Command(os.Args[0], "-test.run=^TestServer_EndsWithTheProcessThatStartedItAndSoDoItsSessions$")
			folder := dir
			if kind == "fast" {
				folder = "-"
			}
			temp := pgtest.Dir(t)
			if err := os.Mkdir(temp, 0o755); err != nil {
				t.Fatal(err)
			}
			parent.Env = append(os.Environ(), orphanVariable+"="+folder, "TMPDIR="+temp)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			db := connect(t, word(t, out, "url"))
			pid, ended := start(db, "SELECT pg_sleep(600)")
			_ = parent.Process.Kill()
			_ = parent.Wait()
			within(t, 20*time.Second, "the session to end", func() bool { return !process.Alive(int(pid)) })
			if err := <-ended; err == nil {
				t.Error("the statement succeeded")
			}
			if kind == "kept" {
				next := pgtest.Private(t, pgbox.Config{Dir: dir})
				connect(t, next.URL())
			}
		})
	}
}

// orphan starts a server in the folder, "-" for a fast one in a temporary folder, and lasts until it is killed.
func orphan(bin, folder string) {
	cfg := pgbox.Config{Dir: folder}
	if folder == "-" {
		cfg = pgbox.Config{Fast: true}
	}
	s, err := pgbox.Start(context.Background(), bin, cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print("url ", s.URL(), " ")
	select {}
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
