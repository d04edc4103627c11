// Package process runs the servers that development, the demo and tests start on this machine: as children
// in a process group of their own, so an interrupt typed at a terminal reaches only us and we decide when
// they stop, with what they print in a file. They end when this process does, however that ends.
package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const poll = 10 * time.Millisecond

// Config says what to run. Path, Dir and Log are required.
type Config struct {
	Path string   // of the program
	Args []string // without the program's name
	Env  []string // NAME=value; nil: ours
	Dir  string   // where it runs
	Log  string   // path of the file to which its standard output and error are appended
	User *Account // whom it runs as; nil: as we do. Only root may name one
	End  Signal   // what it is sent when we end; 0: [Kill]. Windows knows no such thing
}

// Account is a user of this machine, by numbers.
type Account struct{ UID, GID uint32 }

// Output runs what c describes to its end, or the end of ctx, and returns what it printed. The error of a
// program that failed has its complaint. Log and End mean nothing here.
func Output(ctx context.Context, c Config) (string, error) {
	runtime.LockOSThread() // see Start
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.SysProcAttr = attributes(c.User, Kill)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var failed *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("%s: %w", filepath.Base(c.Path), context.Cause(ctx))
	case errors.As(err, &failed):
		err = fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, bytes.TrimSpace(failed.Stderr))
	}
	return string(out), err
}

// Process is one running program. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended and was reaped
}

// Start runs what c describes.
//
// One goroutine, locked to its thread, starts the process and stays until it ends: Linux signals a child
// when the thread that started it goes away, which would otherwise be whenever Go retires that thread.
func Start(c Config) (*Process, error) {
	out, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	end := cmp.Or(c.End, Kill)
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, out, out
	cmd.SysProcAttr = attributes(c.User, end)

	p := &Process{cmd: cmd, log: c.Log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer out.Close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			guard := newGuard(cmd.Process.Pid, end)
			defer guard.release()
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// ID is the number by which the system knows the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the process to end, also where it is paused, by each of the signals in turn, giving it grace after
// each, and kills it when it is still there. It returns when the process is gone.
func (p *Process) Stop(grace time.Duration, signals ...Signal) {
	for _, s := range signals {
		p.Signal(s)
		p.Signal(Continue)
		if p.ends(grace) {
			return
		}
	}
	p.Kill()
}

func (p *Process) ends(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// Kill ends the process without a warning and returns when it is gone.
func (p *Process) Kill() {
	p.Signal(Kill)
	<-p.done
}

// Signal sends s. A process that has already ended needs none, which is the only error there can be.
func (p *Process) Signal(s Signal) { _ = p.cmd.Process.Signal(s) }

// Await calls try until it succeeds. It gives up when the process has ended, when the port turns out to be
// another's ([ErrPortTaken]), and with ctx; then it returns what try said last.
func (p *Process) Await(ctx context.Context, try func() error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := try()
		if err == nil || errors.Is(err, ErrPortTaken) {
			return err
		}
		select {
		case <-p.done:
			if strings.Contains(p.LogTail(), "Address already in use") {
				return ErrPortTaken
			}
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// LogTail returns the last few lines of the log, for an error message.
func (p *Process) LogTail() string {
	const most = 2000
	data, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	data = bytes.TrimSpace(data)
	if len(data) > most {
		data = data[len(data)-most:]
		if _, rest, found := bytes.Cut(data, []byte("\n")); found {
			data = rest
		}
	}
	return string(data)
}
