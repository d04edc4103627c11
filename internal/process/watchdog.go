//go:build unix

package process

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdog is a shell that waits for the end of a pipe whose other end only this process holds, and then
// signals the server: the pipe closes when this process ends, however that happens.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// newWatchdog watches over the process pid and sends it end. It returns nil where no shell can be started:
// the server then has to be stopped by [Process.Stop].
func newWatchdog(pid int, end Signal) *watchdog {
	cmd := exec.Command("/bin/sh", "-c", `read -r _; kill -"$1" "$0"`, strconv.Itoa(pid), strconv.Itoa(int(end)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	if err := cmd.Start(); err != nil {
		return nil
	}
	return &watchdog{cmd: cmd, pipe: pipe}
}

// release ends the watchdog without letting it bite: the process id may already be someone else's.
func (w *watchdog) release() {
	if w == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	_ = w.pipe.Close()
}
