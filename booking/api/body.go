package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// mostNesting is how deep arrays and objects may stand in each other: nothing that we read needs more than three.
const mostNesting = 32

// readBody reads the body up to a size. It returns too-large or bad-request.
func (q *request) readBody(most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(q.w.ResponseWriter, q.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refusal{code: "too-large"}
	case err != nil:
		return nil, refusal{code: "bad-request", detail: "The body could not be read."}
	case nesting(body) > mostNesting:
		return nil, refusal{code: "bad-request", detail: "The body is nested too deep."}
	}
	return body, nil
}

// members reads a body that is a JSON object, or nothing. Names are matched exactly; unknown ones are for who knows them.
func (q *request) members() (members, error) {
	body, err := q.readBody(q.api.cfg.MaxBody)
	if err != nil || strings.TrimSpace(string(body)) == "" {
		return nil, err
	}
	var m members
	if !utf8.Valid(body) || json.Unmarshal(body, &m) != nil || m == nil {
		return nil, refusal{code: "bad-request", detail: "The body is no JSON object."}
	}
	return m, nil
}

type members map[string]json.RawMessage

// text reads a member that is a string; null and none are "".
func (m members) text(name string) (string, error) {
	var s *string
	raw, ok := m[name]
	if !ok {
		return "", nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", refusal{code: "invalid", detail: name + " must be a string."}
	}
	if s == nil {
		return "", nil
	}
	return *s, nil
}

// has reports whether a member is there and not null.
func (m members) has(name string) bool {
	raw, ok := m[name]
	return ok && string(raw) != "null"
}

// customerIs checks what the client says of itself, if it does: it may be wrong, and is never believed.
func (m members) customerIs(known ...string) error {
	if !m.has("customerId") {
		return nil
	}
	said := string(m["customerId"]) // a number, or what comes next
	var text string
	if json.Unmarshal(m["customerId"], &text) == nil {
		said = text
	}
	if !slices.Contains(known, said) {
		return refusal{code: "wrong-customer", detail: "customerId is not needed, and must be the one that was admitted."}
	}
	return nil
}

// nesting counts how deep brackets stand in each other, outside strings. It is no parser: what is no JSON has a depth too.
func nesting(body []byte) int {
	depth, most, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}
