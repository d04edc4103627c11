package redisbox

import "syscall"

// Windows can't pause a process, and ends it without a warning: the two other signals do nothing.
const (
	sigTerminate = syscall.SIGKILL
	sigPause     = syscall.Signal(0)
	sigContinue  = syscall.Signal(0)
)

func ownGroup() *syscall.SysProcAttr { return nil }

// guard does nothing here: on Windows a server outlives a process that ends without stopping it.
type guard struct{}

func newGuard(int) guard { return guard{} }

func (guard) release() {}
