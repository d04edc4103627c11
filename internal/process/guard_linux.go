package process

import "syscall"

// attributes put a process in its own group and have the kernel send it a signal when we end.
func attributes(user *Account, end Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end, Credential: user.credential()}
}

// guard does nothing here: the kernel does its work.
type guard struct{}

func newGuard(int, Signal) guard { return guard{} }

func (guard) release() {}
