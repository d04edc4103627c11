package seed

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a seed file.
type Problem struct {
	Key     string // the full key, as events[0].prices; "file" for the file as a whole
	Message string // what is wrong and what is allowed
	Line    int    // from 1; 0 = nowhere
}

// String is the problem on one line: key: message, and where it stands.
func (p Problem) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s: %s [line %d]", p.Key, p.Message, p.Line)
	}
	return p.Key + ": " + p.Message
}

// Problems is the error of [Parse]: everything that is wrong with a file, by line.
type Problems []Problem

// maxProblems bounds the list: a file that is wrong a thousand times over is not read better with a thousand lines.
const maxProblems = 100

// Error lists every problem, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// err is nil where there is no problem, else the first of them in the order of the file.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return a.Line - b.Line })
	if more := len(ps) - maxProblems; more > 0 {
		ps = append(ps[:maxProblems], Problem{Key: "file", Message: fmt.Sprintf("and %d problems more", more)})
	}
	return ps
}
