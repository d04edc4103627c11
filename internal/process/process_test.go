//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// shell starts a shell that runs script.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	dir := t.TempDir()
	p, err := Start(Config{Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Log: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// readyShell is the same for a script that prints "ready", and returns when it has.
func readyShell(t *testing.T, script string) *Process {
	t.Helper()
	p := shell(t, script)
	err := p.Await(t.Context(), func() error {
		if !strings.Contains(p.LogTail(), "ready") {
			return errors.New("not ready")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v: %s", err, p.LogTail())
	}
	return p
}

func TestProcess_StopTriesOneSignalAfterTheOther(t *testing.T) {
	p := readyShell(t, `trap '' TERM; trap 'echo interrupted; exit' INT; echo ready; while :; do sleep 0.01; done`)
	p.Stop(200*time.Millisecond, Terminate, Interrupt)
	if !strings.Contains(p.LogTail(), "interrupted") {
		t.Errorf("the second signal did not arrive: %s", p.LogTail())
	}
}

func TestProcess_StopKillsWhatHeedsNoSignalEvenWhenPaused(t *testing.T) {
	p := readyShell(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	p.Signal(Pause)
	p.Stop(50*time.Millisecond, Terminate)
	select {
	case <-p.Done():
	default:
		t.Error("Stop returned before the end")
	}
}

func TestProcess_ChildrenAreThoseThatRun(t *testing.T) {
	p := readyShell(t, `sleep 600 & echo "ready $!"; wait`)
	children := Children(p.ID())
	if len(children) != 1 || !Alive(children[0]) {
		t.Fatalf("got children %v, want the one that is running", children)
	}
	if ours := Children(os.Getpid()); !slices.Contains(ours, p.ID()) {
		t.Errorf("got %v as our own children, want %d among them", ours, p.ID())
	}
	Send(children[0], Kill)
	for deadline := time.Now().Add(10 * time.Second); Alive(children[0]); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a killed child is alive")
		}
	}
}

func TestAwait_EndsWithTheProcessAndTellsATakenPort(t *testing.T) {
	never := func() error { return errors.New("not yet") }
	for script, want := range map[string]string{
		"echo ready":                          "it ended",
		"echo 'bind: Address already in use'": ErrPortTaken.Error(),
	} {
		if err := shell(t, script).Await(t.Context(), never); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", script, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := shell(t, "exec sleep 600").Await(ctx, never); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v, want the end of the context and what was tried last", err)
	}
}

func TestOutput_ReturnsWhatIsPrintedAndWhyItFailed(t *testing.T) {
	c := Config{Path: "/bin/sh", Dir: t.TempDir(), Env: []string{"GREETING=hello"}, Args: []string{"-c", "echo $GREETING; pwd"}}
	if out, err := Output(t.Context(), c); out != "hello\n"+c.Dir+"\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	c.Args = []string{"-c", "echo no such luck >&2; exit 3"}
	if _, err := Output(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v, want the program's complaint", err)
	}
}

func TestFreePort_IsFreeWithTheOthersAskedFor(t *testing.T) {
	port, err := FreePort(1, 10000)
	if err != nil {
		t.Fatal(err)
	}
	if port < firstPort || port > lastPort || !unused(port, []int{1, 10000}) {
		t.Errorf("got port %d", port)
	}
}
