package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Key      string // the full key, as rooms[0] (spring-tour).rate; "file" for the file as a whole
	Message  string // what is wrong and what is allowed; never a secret
	Line     int    // where it stands in the file, from 1; 0 = nowhere
	Variable string // the environment variable the value came from; "" = the file
}

// String is the problem on one line: key: message, and where it stands.
func (p Problem) String() string {
	switch {
	case p.Variable != "":
		return fmt.Sprintf("%s: %s [from %s]", p.Key, p.Message, p.Variable)
	case p.Line > 0:
		return fmt.Sprintf("%s: %s [line %d]", p.Key, p.Message, p.Line)
	}
	return p.Key + ": " + p.Message
}

// Problems is the error of [Load]: everything that is wrong with a configuration, in the order of the file.
type Problems struct {
	List []Problem

	more  int   // how many were found after the list was full
	cause error // why the file could not be read, if that is the problem
}

// maxProblems bounds the list: a file that is wrong a thousand times over is not read better with a thousand lines.
const maxProblems = 100

// Error lists every problem, one a line.
func (p *Problems) Error() string {
	lines := make([]string, 0, len(p.List)+1)
	for _, problem := range p.List {
		lines = append(lines, problem.String())
	}
	if p.more > 0 {
		lines = append(lines, fmt.Sprintf("file: and %d problems more", p.more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap is the error with which reading the file failed, so errors.Is(err, fs.ErrNotExist) works.
func (p *Problems) Unwrap() error { return p.cause }

// findings gathers what is wrong while a file is read, and where each key came from.
type findings struct {
	problems Problems
	origins  map[string]origin
	bad      map[string]bool // keys with a problem
	tainted  map[string]bool // their parents
}

type origin struct {
	line     int
	variable string
}

func newFindings() *findings {
	return &findings{origins: map[string]origin{}, bad: map[string]bool{}, tainted: map[string]bool{}}
}

// add notes that something is wrong with key, at the place the key came from.
func (f *findings) add(key, format string, args ...any) {
	f.addAt(f.origin(key), key, format, args...)
}

// addLine notes that something is wrong with key at a line of the file.
func (f *findings) addLine(line int, key, format string, args ...any) {
	f.addAt(origin{line: line}, key, format, args...)
}

func (f *findings) addAt(at origin, key, format string, args ...any) {
	f.bad[key] = true
	for k, ok := parent(key); ok; k, ok = parent(k) {
		f.tainted[k] = true
	}
	if len(f.problems.List) == maxProblems {
		f.problems.more++
		return
	}
	f.problems.List = append(f.problems.List,
		Problem{Key: key, Message: fmt.Sprintf(format, args...), Line: at.line, Variable: at.variable})
}

// origin is where key, or else the nearest key above it, came from.
func (f *findings) origin(key string) origin {
	for ok := true; ok; key, ok = parent(key) {
		if at, found := f.origins[key]; found {
			return at
		}
	}
	return origin{}
}

// supersede notes that key, with everything below it, came from at and not from the file.
func (f *findings) supersede(key string, at origin) {
	for below := range f.origins {
		if strings.HasPrefix(below, key+"[") {
			delete(f.origins, below)
		}
	}
	f.origins[key] = at
}

// ok reports whether none of keys, of what stands below them and of what they stand in has a problem yet.
func (f *findings) ok(keys ...string) bool {
	for _, key := range keys {
		if f.tainted[key] {
			return false
		}
		for more := true; more; key, more = parent(key) {
			if f.bad[key] {
				return false
			}
		}
	}
	return true
}

// err is nil, or what was found in the order of the file.
func (f *findings) err() error {
	if len(f.problems.List) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems.List, func(a, b Problem) int {
		switch {
		case a.Line == b.Line:
			return 0
		case a.Line == 0:
			return 1
		case b.Line == 0:
			return -1
		}
		return a.Line - b.Line
	})
	return &f.problems
}

// parent cuts the last step, .name or [n], from a key.
func parent(key string) (string, bool) {
	i := strings.LastIndexAny(key, ".[")
	if i < 0 {
		return "", false
	}
	return strings.TrimSuffix(key[:i], "."), true
}

// quote shows a value in a message, cut to a readable length.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strconv.Quote(text)
}
