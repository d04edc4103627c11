package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// errUnreadable means the file has no keys to look at; what is wrong with it is in the findings.
var errUnreadable = errors.New("config: not a readable YAML file")

// value is one scalar as it was written, with where it was written.
type value struct {
	key    string // full key
	text   string
	tag    string // YAML's short tag, as !!str; "" = not from the file
	quoted bool
}

// document turns YAML into what viper holds: maps, lists, and a [value] for each scalar. It checks keys where they
// stand, and what is not in the schema does not get in. It is a [viper.Decoder] for one file.
//
// Anchors, aliases and merge keys work. They cannot blow up: the schema bounds the depth, steps bounds the rest.
type document struct {
	found  *findings
	labels []string // what each room is called in problems
	steps  int      // how many nodes may still be looked at
}

const maxSteps = 200_000

// Decoder makes a document its own registry: viper asks it for a decoder of "yaml".
func (d *document) Decoder(string) (viper.Decoder, error) { return d, nil }

// Decode reads data into the map into. It returns an error only if there is nothing to look at.
func (d *document) Decode(data []byte, into map[string]any) error {
	root, ok := d.parse(data)
	if !ok {
		return errUnreadable
	}
	d.steps = maxSteps
	d.mapping("", root, schema, into)
	if d.steps < 0 { // what was read is cut short, and so is what was found
		d.found.problems = Problems{}
		d.found.add("file", "holds more than %d values, aliases counted; write fewer", maxSteps)
		return errUnreadable
	}
	return nil
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// step counts one node, and reports whether more may be looked at.
func (d *document) step() bool {
	d.steps--
	return d.steps >= 0
}

type pair struct {
	name  string
	line  int
	value *yaml.Node
}

// mapping reads the keys of n, which stands at key, into the map into.
func (d *document) mapping(key string, n *yaml.Node, fields []field, into map[string]any) {
	for _, p := range d.pairs(key, n, 0) {
		full := join(key, p.name)
		f, known := find(fields, p.name)
		if !known {
			d.found.addLine(p.line, full, "is not a key here, %s", hint(key, fields, p.name))
			continue
		}
		d.found.origins[full] = origin{line: p.line}
		content := resolve(p.value)
		if content.ShortTag() == "!!null" {
			continue // a key without a value is as good as none
		}
		if v := d.content(full, content, f); v != nil {
			into[p.name] = v
		}
	}
}

// content reads what stands behind one known key: nil if there is nothing to use.
func (d *document) content(key string, n *yaml.Node, f field) any {
	switch f.kind {
	case leaf:
		return d.scalar(key, n)
	case list:
		return d.list(key, n)
	case rooms:
		return d.rooms(key, n, f.fields)
	}
	if n.Kind != yaml.MappingNode {
		d.found.add(key, "is a group of keys, %s", allowed(f.fields, ""))
		return nil
	}
	into := map[string]any{}
	d.mapping(key, n, f.fields, into)
	return into
}

// scalar reads one value: nil if it cannot be one.
func (d *document) scalar(key string, n *yaml.Node) any {
	v := value{key: key, text: strings.TrimRight(n.Value, "\n"), tag: n.ShortTag(),
		quoted: n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0}
	switch {
	case n.Kind != yaml.ScalarNode:
		d.found.add(key, "takes one value, not a list or keys of its own")
	case !plainTag[v.tag]:
		d.found.add(key, "has the YAML tag %s, write a plain value", quote(v.tag))
	case control(v.text):
		d.found.add(key, "%s holds a control character, write plain text", quote(v.text))
	default:
		return v
	}
	return nil
}

var plainTag = map[string]bool{"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!timestamp": true}

func (d *document) list(key string, n *yaml.Node) any {
	if n.Kind != yaml.SequenceNode {
		d.found.add(key, "takes a list, write [one, two]")
		return nil
	}
	out := []any{}
	for i, item := range n.Content {
		if !d.step() {
			break
		}
		at := fmt.Sprintf("%s[%d]", key, i)
		d.found.origins[at] = origin{line: item.Line}
		if v := d.scalar(at, resolve(item)); v != nil {
			out = append(out, v)
		} else {
			out = append(out, value{key: at}) // keeps the places of the others
		}
	}
	return out
}

// rooms reads the list of rooms. A room that cannot be read stays as an empty one, with a problem.
func (d *document) rooms(key string, n *yaml.Node, fields []field) any {
	if n.Kind != yaml.SequenceNode {
		d.found.add(key, `takes a list of rooms, each of which begins with "- id: NAME"`)
		return nil
	}
	out := []any{}
	for i, item := range n.Content {
		if len(out) == maxRooms {
			d.found.addLine(item.Line, key, "are more than %d, write fewer", maxRooms)
			break
		}
		room, label := resolve(item), fmt.Sprintf("%s[%d]", key, i)
		if id := d.peekID(room); validID(id) {
			label += " (" + id + ")"
		}
		into := map[string]any{}
		out, d.labels = append(out, into), append(d.labels, label)
		d.found.origins[label] = origin{line: item.Line}
		if room.Kind != yaml.MappingNode {
			d.found.add(label, `is not a room, each begins with "- id: NAME"`)
			continue
		}
		d.mapping(label, room, fields, into)
	}
	return out
}

const maxRooms = 1000

func (d *document) peekID(room *yaml.Node) string {
	for i := 0; i+1 < len(room.Content) && room.Kind == yaml.MappingNode; i += 2 {
		if room.Content[i].Value == "id" {
			return resolve(room.Content[i+1]).Value
		}
	}
	return ""
}

// pairs are the keys of a mapping with what stands behind them, its own first, then those it merges by "<<".
func (d *document) pairs(key string, n *yaml.Node, depth int) []pair {
	var out []pair
	var merged []*yaml.Node
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content) && d.step(); i += 2 {
		name := resolve(n.Content[i])
		line := n.Content[i].Line
		switch first, twice := lines[name.Value]; {
		case n.Content[i].ShortTag() == "!!merge":
			merged = append(merged, sources(n.Content[i+1])...)
		case name.Kind != yaml.ScalarNode:
			d.found.addLine(line, join(key, "?"), "is not a key, write name: value")
		case twice:
			d.found.addLine(line, join(key, name.Value), "is given twice, the first time on line %d", first)
		default:
			lines[name.Value] = line
			out = append(out, pair{name.Value, line, n.Content[i+1]})
		}
	}
	for _, source := range merged {
		if source.Kind != yaml.MappingNode || depth == maxMerges {
			d.found.addLine(source.Line, join(key, "<<"), "merges what is not a mapping, or merges too deep")
			continue
		}
		if !d.step() {
			break
		}
		for _, p := range d.pairs(key, source, depth+1) {
			if _, own := lines[p.name]; !own {
				lines[p.name] = p.line
				out = append(out, p)
			}
		}
	}
	return out
}

const maxMerges = 4

// sources are the mappings that one merge key names.
func sources(n *yaml.Node) []*yaml.Node {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	var out []*yaml.Node
	for _, item := range n.Content {
		out = append(out, resolve(item))
	}
	return out
}

// hint says what an unknown key under key may have meant.
func hint(key string, fields []field, name string) string {
	if _, inRoom := find(roomSchema, name); inRoom && key == "" {
		return "it belongs to a room: indent it under one of rooms"
	}
	if _, onTop := find(schema, name); onTop && key != "" {
		return "it belongs to the top of the file: do not indent it"
	}
	return allowed(fields, name)
}

// join is the key of name below key. A name that is no plain word is quoted.
func join(key, name string) string {
	if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-<?") != "" || name == "" {
		name = quote(name)
	}
	if key == "" {
		return name
	}
	return key + "." + name
}

func control(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError })
}
