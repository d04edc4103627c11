//go:build unix

package main

import "syscall"

// maxConns is how many visitors' connections fit under the limit of open files (ulimit -n): three quarters of it, since
// those that reach the site need a second one.
func maxConns() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0 // the server's default
	}
	return int(min(max(uint64(limit.Cur)/4*3, 64), 1_000_000))
}
