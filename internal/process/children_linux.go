package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Children returns the numbers of the processes that the process pid started and that have not ended.
func Children(pid int) []int {
	folders, _ := filepath.Glob("/proc/[0-9]*") // the only error is that of a bad pattern
	var children []int
	for _, folder := range folders {
		child, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		if parent, running := status(child); running && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// Alive says whether the process pid is there and does more than wait for its parent to notice its end.
func Alive(pid int) bool {
	_, running := status(pid)
	return running
}

// status reads what the kernel tells of a process.
func status(pid int) (parent int, running bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// 4711 (any name) S 4710 ...
	var state string
	after := text[bytes.LastIndexByte(text, ')')+1:]
	if _, err := fmt.Sscan(string(after), &state, &parent); err != nil {
		return 0, false
	}
	return parent, state != "Z" && state != "X"
}
