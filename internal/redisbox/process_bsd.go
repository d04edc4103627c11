//go:build unix && !linux

package redisbox

import "syscall"

// ownGroup puts a server in its own process group. See [guard] for its end.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// guard is [watchdog], where the kernel offers nothing like Linux's death signal.
type guard = *watchdog

func newGuard(pid int) guard { return newWatchdog(pid) }
