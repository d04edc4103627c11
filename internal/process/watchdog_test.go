//go:build unix

package process

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestWatchdog_KillsWhenItsPipeClosesAndOnlyThen(t *testing.T) {
	sleeper := func() *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}

	spared := sleeper()
	newWatchdog(spared.Process.Pid, syscall.SIGKILL).release()
	if err := spared.Process.Kill(); err != nil {
		t.Errorf("a released watchdog killed: %v", err)
	}
	_ = spared.Wait()

	bitten := sleeper()
	w := newWatchdog(bitten.Process.Pid, syscall.SIGKILL)
	_ = w.pipe.Close() // what our own end does
	if err := bitten.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v, want killed", err)
	}
	_ = w.cmd.Wait()
}
