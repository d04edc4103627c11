//go:build unix && !linux

package process

import "syscall"

// attributes put a process in its own group. See [guard] for its end.
func attributes(user *Account, _ Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: user.credential()}
}

// guard is [watchdog], where the kernel offers nothing like Linux's death signal.
type guard = *watchdog

func newGuard(pid int, end Signal) guard { return newWatchdog(pid, end) }
