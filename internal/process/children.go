package process

import (
	"os"
	"syscall"
)

// Signal is what a process can be sent.
type Signal = syscall.Signal

// Send sends a signal to the process with the number pid, if it is there.
func Send(pid int, s Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Signal(s)
	}
}
