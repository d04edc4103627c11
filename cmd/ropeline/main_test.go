package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ropeline/internal/pgbox/pgtest"
)

// program is the binary under test. The tests of a whole system run it as an operator would.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ropeline-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "ropeline")
	args := []string{"build", "-o", program}
	if raceDetector {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	defer pgtest.Stop()
	return m.Run()
}

// patience is how long a test waits for what should come within a moment: the machine may be busy.
const patience = 60 * time.Second

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// environment is that of the test without what would change a configuration, and with more.
func environment(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROPELINE_") || strings.HasPrefix(v, "ROPELINE_REDIS_SERVER=") || strings.HasPrefix(v, "ROPELINE_PG_BIN=") {
			env = append(env, v)
		}
	}
	return append(env, more...)
}

// result is what became of a command.
type result struct {
	code        int
	out, errout string
}

// command runs the program to its end.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env, c.WaitDelay = env, 5*time.Second
	var out, errout bytes.Buffer
	c.Stdout, c.Stderr = &out, &errout
	err := c.Run()
	if ctx.Err() != nil {
		t.Fatalf("ropeline %s did not end; it said:\n%s%s", strings.Join(args, " "), &out, &errout)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errout.String()}
}

// process is a program that runs.
type process struct {
	t             *testing.T
	cmd           *exec.Cmd
	done          chan struct{} // closed when it has ended
	listen, admin string        // addresses, once it serves

	mu   sync.Mutex
	rest []byte
	log  []string
}

// launch starts a node that follows the file at path. It is not waited for.
func launch(t *testing.T, path string, env ...string) *process {
	t.Helper()
	return launchCommand(t, "serve", path, env...)
}

// launchCommand is launch for a command that serves until it is told to stop.
func launchCommand(t *testing.T, name, path string, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, name, "--config", path), done: make(chan struct{})}
	p.cmd.Env, p.cmd.WaitDelay = environment(env...), 5*time.Second
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, line := range p.log {
			if strings.Contains(line, "DATA RACE") {
				t.Errorf("a data race in the node:\n%s", strings.Join(p.log[i:], "\n"))
				return
			}
		}
		if t.Failed() {
			t.Logf("the node's log:\n%s", strings.Join(p.log[max(0, len(p.log)-40):], "\n"))
		}
	})
	return p
}

// serving starts a node and returns once it serves.
func serving(t *testing.T, path string, env ...string) *process {
	t.Helper()
	p := launch(t, path, env...)
	p.ready()
	return p
}

// ready waits until the node serves.
func (p *process) ready() {
	p.t.Helper()
	line := p.said("serving")
	p.listen, _ = line["listen"].(string)
	p.admin, _ = line["admin"].(string)
}

// Write takes what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, b...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		p.log, p.rest = append(p.log, string(line)), rest
	}
}

// said waits for a line of the log with this message and returns it.
func (p *process) said(message string) map[string]any {
	p.t.Helper()
	return p.saidTimes(message, 1)[0]
}

// saidTimes waits until the log holds n lines with this message and returns them.
func (p *process) saidTimes(message string, n int) (lines []map[string]any) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("the node logs %q %d times", message, n), func() bool {
		over := false
		select {
		case <-p.done:
			over = true
		default:
		}
		lines = p.find(message)
		if over && len(lines) < n {
			p.t.Fatalf("the node ended with %v and logged %q %d times, not %d", p.cmd.ProcessState, message, len(lines), n)
		}
		return len(lines) >= n
	})
	return lines
}

// find returns the lines of the log with this message.
func (p *process) find(message string) (lines []map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.log {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

// signal sends s, which the process must be there to take.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits for the end of the process and returns its exit code.
func (p *process) ended(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("the node has not ended after %v", within)
	}
	return p.cmd.ProcessState.ExitCode()
}
