package config

import (
	"fmt"
	"net/url"
	"reflect"
	"time"
)

// Changes says what differs between two configurations, a line for each key: `spring-tour.rate: 10/s -> 200/s`. Rooms are
// named by their id. Nothing that is a secret is in it.
func Changes(old, new *Config) []string {
	out := differ("", reflect.ValueOf(*old), reflect.ValueOf(*new))
	before := map[string]Room{}
	for _, r := range old.Rooms {
		before[r.ID] = r
	}
	for _, r := range new.Rooms {
		was, known := before[r.ID]
		delete(before, r.ID)
		if !known {
			out = append(out, r.ID+": added")
			continue
		}
		out = append(out, differ(r.ID+".", reflect.ValueOf(was), reflect.ValueOf(r))...)
	}
	for _, r := range old.Rooms {
		if _, gone := before[r.ID]; gone {
			out = append(out, r.ID+": removed")
		}
	}
	return out
}

// differ compares two structs key by key; rooms are left out.
func differ(prefix string, old, new reflect.Value) (out []string) {
	for i := range old.NumField() {
		field := old.Type().Field(i)
		key := prefix + field.Tag.Get("mapstructure")
		a, b := old.Field(i), new.Field(i)
		switch {
		case !field.IsExported(), key == "rooms":
		case field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[time.Time]():
			out = append(out, differ(key+".", a, b)...)
		default:
			if was, is := shown(a), shown(b); was != is {
				out = append(out, fmt.Sprintf("%s: %s -> %s", key, was, is))
			}
		}
	}
	return out
}

// shown is a value as a person reads it.
func shown(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case *url.URL:
		if x == nil {
			return "none"
		}
		return upstreamText(x)
	case time.Time:
		if x.IsZero() {
			return "none"
		}
		return x.Format(time.RFC3339)
	case string:
		if u, err := url.Parse(x); err == nil && u.User != nil {
			return u.Redacted()
		}
		return fmt.Sprintf("%q", x)
	}
	return fmt.Sprint(v.Interface())
}
