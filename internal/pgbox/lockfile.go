package pgbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ropeline/internal/process"
)

// ready waits until the server says that it takes connections.
func (s *Server) ready(ctx context.Context, proc *process.Process) error {
	return proc.Await(ctx, func() error {
		pid, status := lockFile(s.data)
		if pid != proc.ID() { // of an earlier server
			return errors.New("it is starting")
		}
		if status != "ready" {
			return fmt.Errorf("it is %s", status)
		}
		return nil
	})
}

// departed waits for a server that is about to end in the same folder, as the one of a process like this that
// was killed a moment ago is.
func (s *Server) departed(ctx context.Context) {
	for {
		pid, status := lockFile(s.data)
		if status != "stopping" || !process.Alive(pid) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// lockFile reads the process number and the status that a server writes into its data folder: starting, ready
// or stopping. It returns 0 and "" where there is none, or a part of it.
func lockFile(data string) (pid int, status string) {
	const pidLine, statusLine = 0, 7
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) <= statusLine {
		return 0, ""
	}
	pid, _ = strconv.Atoi(lines[pidLine])
	return pid, strings.TrimSpace(lines[statusLine])
}
