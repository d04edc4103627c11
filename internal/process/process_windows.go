package process

import "syscall"

// Windows can't pause a process, and ends it without a warning: the two last signals do nothing.
const (
	Kill      = syscall.SIGKILL
	Terminate = syscall.SIGKILL
	Interrupt = syscall.SIGKILL
	Quit      = syscall.SIGKILL
	Pause     = syscall.Signal(0)
	Continue  = syscall.Signal(0)
)

func attributes(*Account, Signal) *syscall.SysProcAttr { return nil }

// guard does nothing here: on Windows a server outlives a process that ends without stopping it.
type guard struct{}

func newGuard(int, Signal) guard { return guard{} }

func (guard) release() {}

// Children is not known on Windows.
func Children(int) []int { return nil }

// Alive is not known on Windows, and taken for no.
func Alive(int) bool { return false }
