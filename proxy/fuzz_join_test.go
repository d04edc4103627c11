package proxy

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzJoinBody: whatever comes, only an object or nothing at all is taken, and the id is the one that it names.
func FuzzJoinBody(f *testing.F) {
	for _, seed := range []string{
		"", " ", "{}", `{"queueId":"rp1.AAAA"}`, `{"queueId":null}`, `{"queueId":5}`, `null`, `[]`, `"x"`, `{`, `{}{}`, "\x00", "\xff",
		`{"queueId":"a","queueId":"b"}`, `{"queueId":"\ud800"}`, `{"QUEUEID":"x"}`, "\xef\xbb\xbf{}", strings.Repeat("[", 4000), "\u00a0",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		id, err := parseJoin(body)
		if err != nil {
			if id != "" {
				t.Errorf("%q refused, yet the id is %q", body, id)
			}
			return
		}
		if len(strings.TrimSpace(string(body))) == 0 {
			if id != "" {
				t.Errorf("nothing names %q", id)
			}
			return
		}
		var object map[string]any
		if json.Unmarshal(body, &object) != nil || object == nil {
			t.Fatalf("%q was taken", body)
		}
		named := ""
		for name, value := range object {
			if s, ok := value.(string); ok && strings.EqualFold(name, "queueId") && s == id {
				named = s
			}
		}
		if named != id {
			t.Errorf("%q names %q, got %q", body, named, id)
		}
	})
}
