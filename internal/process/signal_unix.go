//go:build unix

package process

import "syscall"

// What a server can be told.
const (
	Kill      = syscall.SIGKILL
	Terminate = syscall.SIGTERM
	Interrupt = syscall.SIGINT
	Quit      = syscall.SIGQUIT
	Pause     = syscall.SIGSTOP
	Continue  = syscall.SIGCONT
)

func (a *Account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.UID, Gid: a.GID}
}
