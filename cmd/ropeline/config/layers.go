package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// delimiter parts the steps of a key inside viper. No key holds it: a file with a NUL byte is refused.
const delimiter = "\x00"

// layers puts defaults, file and environment on top of each other and decodes the result. It returns nil if the file
// has no keys to look at; otherwise what could not be decoded is a zero value, and in the findings.
func layers(data []byte, environ []string, found *findings) (cfg *Config, labels []string) {
	doc := &document{found: found}
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter), viper.WithDecoderRegistry(doc))
	v.SetConfigType("yaml")
	for _, s := range settings(schema) {
		if text := defaultOf(s.field); text != nil {
			v.SetDefault(strings.Join(s.path, delimiter), text)
		}
	}
	if err := v.ReadConfig(bytes.NewReader(data)); err != nil {
		return nil, nil
	}

	ids := make([]string, len(doc.labels))
	maps := make([]map[string]any, len(doc.labels))
	list, _ := v.Get("rooms").([]any)
	for i, item := range list {
		maps[i], _ = item.(map[string]any)
		if id, ok := maps[i]["id"].(value); ok {
			ids[i] = id.text
		}
	}
	env := readEnvironment(environ, ids, doc.labels, found)
	for _, o := range env.values {
		if o.room < 0 {
			v.Set(strings.Join(o.path, delimiter), o.value())
		} else {
			put(maps[o.room], o.path, o.value())
		}
	}
	for i, room := range maps {
		fill(room, doc.labels[i], found)
	}
	missing(v, found)

	cfg = &Config{notes: env.notes}
	err := v.UnmarshalExact(cfg, viper.DecodeHook(decoding(found)), func(c *mapstructure.DecoderConfig) {
		c.WeaklyTypedInput = false
		c.IgnoreUntaggedFields = true
	})
	if err != nil && len(found.problems.List) == 0 {
		found.add("file", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return cfg, doc.labels
}

// missing notes what the top of the file must hold and does not.
func missing(v *viper.Viper, found *findings) {
	for _, f := range schema {
		if f.required && v.Get(f.name) == nil && found.ok(f.name) {
			found.add(f.name, "is missing, it must be given")
		}
	}
	if list, _ := v.Get("rooms").([]any); len(list) == 0 && found.ok("rooms") {
		found.add("rooms", `has no room, at least one is needed, as - {id: NAME, rate: 100/s, active_limit: 5000}`)
	}
}

// fill gives a room its defaults and notes which required keys it lacks.
func fill(room map[string]any, label string, found *findings) {
	for _, s := range settings(roomSchema) {
		key := label + "." + s.key()
		if get(room, s.path) != nil || !found.ok(key) {
			continue
		}
		if text := defaultOf(s.field); text != nil {
			put(room, s.path, text)
		} else if s.field.required {
			found.add(key, "is missing, it must be given")
		}
	}
}

// defaultOf is the default of f in the form in which a file would give it, or nil.
func defaultOf(f field) any {
	switch {
	case f.value == "":
		return nil
	case f.kind == list:
		return split("", f.value)
	}
	return value{text: f.value}
}

// split makes a list of a text with commas.
func split(key, text string) []any {
	out := []any{}
	for i, part := range strings.Split(text, ",") {
		out = append(out, value{key: fmt.Sprintf("%s[%d]", key, i), text: strings.TrimSpace(part)})
	}
	return out
}

func get(m map[string]any, path []string) any {
	for _, step := range path[:len(path)-1] {
		m, _ = m[step].(map[string]any)
	}
	return m[path[len(path)-1]]
}

func put(m map[string]any, path []string, v any) {
	for _, step := range path[:len(path)-1] {
		next, ok := m[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[step] = next
		}
		m = next
	}
	m[path[len(path)-1]] = v
}

// decoding is the hook that reads a [value] as the type that its key takes. A value that cannot be read is noted and
// decodes as zero, so that one pass finds everything.
func decoding(found *findings) mapstructure.DecodeHookFuncValue {
	return func(from, to reflect.Value) (any, error) {
		v, ok := from.Interface().(value)
		if !ok || to.Kind() == reflect.Pointer {
			return from.Interface(), nil
		}
		if found.bad[v.key] {
			return reflect.Zero(to.Type()).Interface(), nil
		}
		out, err := v.as(to.Type())
		if err != nil {
			found.add(v.key, "%s", err)
			return reflect.Zero(to.Type()).Interface(), nil
		}
		return out, nil
	}
}
