//go:build unix && !linux

package process

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
)

// Children returns the numbers of the processes that the process pid started and that have not ended.
func Children(pid int) []int {
	var children []int
	for child, parent := range parents() {
		if parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// Alive says whether the process pid is there and does more than wait for its parent to notice its end.
func Alive(pid int) bool {
	_, there := parents()[pid]
	return there
}

// parents asks ps for the parent of each process that runs.
func parents() map[int]int {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "state=").Output()
	if err != nil {
		return nil
	}
	all := map[int]int{}
	for line := range bytes.Lines(out) {
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(string(line), &pid, &parent, &state); err == nil && !strings.HasPrefix(state, "Z") {
			all[pid] = parent
		}
	}
	return all
}
