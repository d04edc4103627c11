package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"sort"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const empty = "is empty, it needs at least upstream and one room"

// parse returns the one mapping that data holds.
func (d *document) parse(data []byte) (*yaml.Node, bool) {
	if line, what := badBytes(data); what != "" {
		d.found.addLine(line, "file", "%s", what)
		return nil, false
	}
	if message := syntaxError(data); message != "" {
		d.syntax(data, message)
		return nil, false
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	_ = decoder.Decode(&doc) // io.EOF leaves it empty
	if err := decoder.Decode(&second); err == nil {
		d.found.addLine(second.Line, "file", "holds a second YAML document, only one is allowed")
		return nil, false
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		d.found.add("file", "%s", empty)
		return nil, false
	}
	root := resolve(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		d.found.addLine(root.Line, "file", "does not hold keys, write key: value")
		return nil, false
	}
	return root, true
}

// badBytes says what no configuration may hold: NUL bytes, bad UTF-8, and tabs that indent.
func badBytes(data []byte) (line int, what string) {
	for text := range bytes.Lines(data) {
		line++
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		switch {
		case bytes.IndexByte(text, 0) >= 0:
			return line, "holds a NUL byte, write plain UTF-8 text"
		case !utf8.Valid(text):
			return line, "is not UTF-8, write plain UTF-8 text"
		case bytes.IndexByte(indent, '\t') >= 0 && len(bytes.TrimSpace(text)) > 0:
			return line, "is indented by a tab, use spaces"
		}
	}
	return 0, ""
}

// syntax notes why data is not YAML. The parser's own line is often that where the surrounding list began, so the line
// is found by cutting: the first after which the same error shows.
func (d *document) syntax(data []byte, message string) {
	lines := slices.Collect(bytes.Lines(data))
	line := sort.Search(len(lines), func(n int) bool {
		return syntaxError(bytes.Join(lines[:n+1], nil)) == message
	})
	d.found.addLine(min(line+1, len(lines)), "file", "is not YAML: %s", message)
}

var syntaxLine = regexp.MustCompile(`^(yaml: )?(line \d+: )?`)

// syntaxError is why data is not YAML, without a line; "" if it is.
func syntaxError(data []byte) string {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return ""
		} else if err != nil {
			return syntaxLine.ReplaceAllString(err.Error(), "")
		}
	}
}
