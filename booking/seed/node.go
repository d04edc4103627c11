package seed

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// node is a value of the file with the key it stands at. Reading one notes what is wrong with it and returns the zero value.
type node struct {
	*yaml.Node
	key  string
	file *file
}

// file gathers the problems of one file.
type file struct{ problems Problems }

func (n node) wrong(format string, args ...any) {
	n.file.problems = append(n.file.problems, Problem{Key: n.key, Message: fmt.Sprintf(format, args...), Line: n.Line})
}

func (n node) child(key string, of *yaml.Node) node {
	if of.Kind == yaml.AliasNode {
		of = of.Alias
	}
	return node{Node: of, key: key, file: n.file}
}

// null says whether there is a key without a value, which is as good as no key.
func (n node) null() bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// pairs are the keys of a group in the order of the file, without repetitions.
func (n node) pairs(yield func(name node, value node)) {
	if n.Kind != yaml.MappingNode {
		n.wrong("is a group of keys")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		key := name.Value
		if n.key != "" {
			key = n.key + "." + name.Value
		}
		label := n.child(key, name)
		if seen[name.Value] {
			label.wrong("is there twice")
			continue
		}
		seen[name.Value] = true
		yield(label, n.child(key, n.Content[i+1]))
	}
}

// fields reads a group whose keys are known: read has one function for each, need names those that must be there.
func (n node) fields(read map[string]func(node), need ...string) {
	found := map[string]bool{}
	n.pairs(func(name, value node) {
		f, known := read[name.Value]
		if !known {
			name.wrong("is not a key here")
			return
		}
		if value.null() {
			return
		}
		found[name.Value] = true
		f(value)
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, name := range need {
		if !found[name] {
			n.wrong("%s is missing", name)
		}
	}
}

// each yields the members of a list; one value stands for a list of one.
func (n node) each(yield func(node)) {
	if n.Kind != yaml.SequenceNode {
		yield(n)
		return
	}
	for i, m := range n.Content {
		yield(n.child(fmt.Sprintf("%s[%d]", n.key, i), m))
	}
}

// text reads a scalar of 1 to most bytes.
func (n node) text(most int) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		n.wrong("takes one value")
	case n.Value == "":
		n.wrong("is empty")
	case len(n.Value) > most:
		n.wrong("is longer than %d bytes", most)
	default:
		return n.Value
	}
	return ""
}

// match reads a text of a shape that what names.
func (n node) match(shape *regexp.Regexp, what string) string {
	s := n.text(200)
	if s != "" && !shape.MatchString(s) {
		n.wrong("%q is not %s", s, what)
		return ""
	}
	return s
}

// oneOf reads one of some words.
func (n node) oneOf(words ...string) string {
	s := n.text(200)
	for _, w := range words {
		if s == w {
			return s
		}
	}
	if s != "" {
		n.wrong("%q is not one of %v", s, words)
	}
	return ""
}

// whole reads a whole number from least to most.
func (n node) whole(least, most int64) int64 {
	s := n.text(40)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < least || v > most {
		n.wrong("%q is not a whole number from %d to %d", s, least, most)
		return 0
	}
	return v
}

func (n node) boolean() bool {
	s := n.text(10)
	if s != "" && s != "true" && s != "false" {
		n.wrong("%q is not true or false", s)
	}
	return s == "true"
}

// duration reads 90s, 10m or 1h30m, from least to most.
func (n node) duration(least, most time.Duration) time.Duration {
	s := n.text(40)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < least || d > most {
		n.wrong("%q is not a time from %s to %s, as 90s, 10m or 1h30m", s, least, most)
		return 0
	}
	return d
}

// instant reads a moment with its offset from UTC.
func (n node) instant() time.Time {
	s := n.text(64)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		n.wrong("%q is not an instant with an offset, as 2026-12-24T19:30:00+07:00", s)
	}
	return t
}
