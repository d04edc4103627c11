package config

import (
	"reflect"
	"slices"
	"strings"
)

type kind int

const (
	leaf  kind = iota // one value
	list              // a list of values
	group             // keys of its own
	rooms             // the list of rooms
)

// field is one key as the tags of [Config] describe it.
type field struct {
	name     string
	kind     kind
	value    string // the text of the default; "" = none
	required bool
	fields   []field // of a group, or of each room
}

var (
	schema     = fieldsOf(reflect.TypeFor[Config]())
	roomSchema = fieldsOf(reflect.TypeFor[Room]())
)

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("mapstructure")
		if name == "" {
			continue
		}
		one := field{name: name, value: f.Tag.Get("default"), required: f.Tag.Get("required") == "true"}
		switch {
		case f.Type == reflect.TypeFor[[]Room]():
			one.kind, one.fields = rooms, fieldsOf(f.Type.Elem())
		case f.Type.Kind() == reflect.Slice:
			one.kind = list
		case f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == t.PkgPath():
			one.kind, one.fields = group, fieldsOf(f.Type)
		}
		out = append(out, one)
	}
	return out
}

func find(fields []field, name string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// settings are the values and lists of fields, those in groups under the group's name: each with its path.
func settings(fields []field, above ...string) []setting {
	var out []setting
	for _, f := range fields {
		path := append(slices.Clone(above), f.name)
		switch f.kind {
		case group:
			out = append(out, settings(f.fields, path...)...)
		case leaf, list:
			out = append(out, setting{path: path, field: f})
		}
	}
	return out
}

// setting is a key that takes a value, and where it stands.
type setting struct {
	path  []string
	field field
}

// variable is how an environment variable spells the setting below its prefix: POLL_MIN.
func (s setting) variable() string { return strings.ToUpper(strings.Join(s.path, "_")) }

// key is how a problem spells the setting: poll.min.
func (s setting) key() string { return strings.Join(s.path, ".") }

// allowed says which of fields was meant by an unknown name, or lists them all.
func allowed(fields []field, unknown string) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if near := nearest(names, unknown); near != "" {
		return "did you mean " + near + "?"
	}
	return "allowed are " + strings.Join(names, ", ")
}

// nearest is the name within two edits of s (one for short names), or "".
func nearest(names []string, s string) string {
	if len(s) > 80 {
		return ""
	}
	best, bound := "", 3
	for _, name := range names {
		if d := distance(strings.ToLower(s), strings.ToLower(name)); d < bound && d <= len(name)/3 {
			best, bound = name, d
		}
	}
	return best
}

// distance counts the edits (insert, delete, replace, swap neighbours) between a and b: optimal string alignment.
func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
