package redisbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// stopGrace is how long a server may take to end by itself before it is killed.
const stopGrace = 5 * time.Second

// process is one running server binary. Its methods are safe for concurrent use.
type process struct {
	cmd  *exec.Cmd
	log  string        // path of the file that takes its standard output and error
	done chan struct{} // closed when the process has ended and was reaped
}

// launch runs path with args in dir and appends what it prints to the file log.
//
// One goroutine, locked to its thread, starts the process and stays until it ends: Linux signals a child
// when the thread that started it goes away, which would otherwise be whenever Go retires that thread.
func launch(path string, args []string, dir, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = ownGroup()

	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer out.Close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			guard := newGuard(cmd.Process.Pid)
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

// stop asks the process to end, also where it is paused, kills it after [stopGrace], and returns when it
// is gone.
func (p *process) stop() {
	p.signal(sigTerminate)
	p.signal(sigContinue)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

// kill ends the process without a warning and returns when it is gone.
func (p *process) kill() {
	p.signal(os.Kill)
	<-p.done
}

// signal sends s. A process that has already ended needs none, which is the only error there can be.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// logTail returns the last few lines of the log, for an error message.
func (p *process) logTail() string {
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
