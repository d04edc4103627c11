//go:build unix

package redisbox

import "syscall"

const (
	sigTerminate = syscall.SIGTERM
	sigPause     = syscall.SIGSTOP
	sigContinue  = syscall.SIGCONT
)
