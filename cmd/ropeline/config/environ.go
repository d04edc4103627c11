package config

import (
	"fmt"
	"slices"
	"strings"
)

// prefix begins the name of every variable that overrides a key.
const prefix = "ROPELINE_"

// foreign are variables of other parts, those ending in "_" by their beginning.
var foreign = []string{"ROPELINE_REDIS_SERVER", "ROPELINE_NPM_ROOT", "ROPELINE_TEST_", "ROPELINE_PG_BIN", "ROPELINE_POSTGRES_URL"}

// environment is what the environment says about keys.
type environment struct {
	values []override
	notes  []string // about variables that name no key
}

// override is the value of one variable.
type override struct {
	room int // index, or -1 for a key at the top of the file
	path []string
	key  string
	list bool
	text string
}

// value is the override in the form in which a file would give it.
func (o override) value() any {
	if o.list {
		return split(o.key, o.text)
	}
	return value{key: o.key, text: o.text}
}

// readEnvironment finds the variables that name keys. A variable without a value counts as not set. A room is named
// by its id, in capitals and with "_" for "-"; the id itself cannot be overridden.
func readEnvironment(environ, ids, labels []string, found *findings) environment {
	var env environment
	targets := targets(ids, labels)
	names := make([]string, 0, len(targets))
	for name := range targets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(name, "=")
		if !strings.HasPrefix(name, prefix) || text == "" || isForeign(name) {
			continue
		}
		switch at := targets[name]; {
		case len(at) == 0:
			env.notes = append(env.notes, unknownVariable(name, names))
		case len(at) > 1:
			found.addAt(origin{variable: name}, at[0].key, "and %s have the same variable, give one of the rooms another id", at[1].key)
		case control(text):
			found.addAt(origin{variable: name}, at[0].key, "%s holds a control character, write plain text", quote(text))
		default:
			at[0].text = text
			found.supersede(at[0].key, origin{variable: name})
			env.values = append(env.values, at[0])
		}
	}
	return env
}

// targets are the keys that each variable name means. Two for one name is a clash between ids and keys: the
// public_paths of room x and the paths of room x-public.
func targets(ids, labels []string) map[string][]override {
	out := map[string][]override{}
	for _, s := range settings(schema) {
		out[prefix+s.variable()] = []override{{room: -1, path: s.path, key: s.key(), list: s.field.kind == list}}
	}
	for i, id := range ids {
		if !validID(id) {
			continue
		}
		for _, s := range settings(roomSchema) {
			if s.key() == "id" {
				continue
			}
			name := prefix + "ROOMS_" + strings.ReplaceAll(strings.ToUpper(id), "-", "_") + "_" + s.variable()
			out[name] = append(out[name],
				override{room: i, path: s.path, key: labels[i] + "." + s.key(), list: s.field.kind == list})
		}
	}
	return out
}

func isForeign(name string) bool {
	return slices.ContainsFunc(foreign, func(f string) bool {
		return name == f || strings.HasSuffix(f, "_") && strings.HasPrefix(name, f)
	})
}

func unknownVariable(name string, names []string) string {
	if near := nearest(names, name); near != "" {
		return fmt.Sprintf("%s: names no key and is ignored, did you mean %s?", name, near)
	}
	return fmt.Sprintf("%s: names no key and is ignored, allowed are %s<KEY> and %sROOMS_<ID>_<KEY>", name, prefix, prefix)
}
