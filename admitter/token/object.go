package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// object is a JSON object read so that no two readers can see different things in it. Values are string, [json.Number],
// bool, nil, or nested for an array or an object.
type object struct {
	values map[string]any
	names  map[string]string // folded name -> the name as written
}

// nested stands for an array or object, of which only the form is looked at.
type nested struct{}

// errObject is any fault in the form of an object; the caller knows which one it reads.
var errObject = errors.New("not one strict JSON object")

// readObject reads data, which must be one JSON object in valid UTF-8. Neither it nor an object in it may have a name
// twice, where names that differ only in case count as one, as they do for encoding/json and for many other readers.
func readObject(data []byte) (object, error) {
	o := object{values: map[string]any{}, names: map[string]string{}}
	if !utf8.Valid(data) {
		return o, errObject
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return o, errObject
	}
	if err := o.fill(dec); err != nil {
		return o, errObject
	}
	if _, err := dec.Token(); err != io.EOF {
		return o, errObject
	}
	return o, nil
}

// fill reads the members up to and with the closing brace.
func (o *object) fill(dec *json.Decoder) error {
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return errObject
		}
		if _, twice := o.names[fold(name)]; twice {
			return errObject
		}
		value, err := readValue(dec)
		if err != nil {
			return err
		}
		o.names[fold(name)] = name
		o.values[name] = value
	}
	_, err := dec.Token()
	return err
}

func readValue(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		inner := object{values: map[string]any{}, names: map[string]string{}}
		return nested{}, inner.fill(dec)
	case json.Delim('['):
		for dec.More() {
			if _, err := readValue(dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return nested{}, err
	}
	return t, nil
}

// misspelled reports whether the object has name in another case only, which some readers would take for it.
func (o object) misspelled(name string) bool {
	written, ok := o.names[fold(name)]
	return ok && written != name
}

// text returns a member that is a string with something in it.
func (o object) text(name string) (string, bool) {
	s, ok := o.values[name].(string)
	return s, ok && s != ""
}

// count returns a member that is an integer from 0 to [maxInteger], written without a sign, fraction or exponent.
func (o object) count(name string) (int64, bool) {
	number, ok := o.values[name].(json.Number)
	if !ok || strings.HasPrefix(number.String(), "-") {
		return 0, false
	}
	n, err := strconv.ParseInt(number.String(), 10, 64)
	return n, err == nil && n <= maxInteger
}

// flag returns a member that is true or false, or absent, which is false.
func (o object) flag(name string) (value, ok bool) {
	v, present := o.values[name]
	if !present {
		return false, true
	}
	value, ok = v.(bool)
	return value, ok
}

// maxInteger is the greatest integer that every JSON reader keeps exactly: 2^53 - 1 (RFC 8259 section 6).
const maxInteger = 1<<53 - 1

// fold maps names that encoding/json takes for the same to the same string, as its own foldName does.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}
