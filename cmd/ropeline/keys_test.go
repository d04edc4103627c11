package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeline/internal/redisbox/redistest"
)

func TestKeys_RotationKeepsTokensAndPlacesOfBefore(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"EdDSA", "HS256"} {
		t.Run(algorithm, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys.json")
			keep := func(args ...string) {
				r := command(t, environment(), append([]string{"keys", "--algorithm", algorithm}, args...)...)
				if r.code != 0 {
					t.Fatalf("keys: %+v", r)
				}
				if err := os.WriteFile(file+".new", []byte(r.out), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(file+".new", file); err != nil {
					t.Fatal(err)
				}
			}
			keep()
			set := newSettings(t, redistest.Private(t).URL(), newSite(t))
			set.top = "signing: {algorithm: " + algorithm + ", keys_file: " + file + "}"
			set.write(t, showRoom, "id: waits, paths: [/waits/], rate: 0, active_limit: 100")
			node := serving(t, set.path)
			c := newClient(t)
			old, waits := node.join(c, "show"), node.join(c, "waits")

			keep("--add", file) // on every node first: it verifies, and does not sign
			node.saidTimes("signing keys read anew", 1)
			if added := node.join(c, "show"); keyOf(t, added.AccessToken) != keyOf(t, old.AccessToken) {
				t.Error("a key that was only added signs")
			}
			keep("--promote", file)
			node.saidTimes("signing keys read anew", 2)
			fresh := node.join(c, "show")
			if keyOf(t, fresh.AccessToken) == keyOf(t, old.AccessToken) {
				t.Error("the promoted key does not sign")
			}
			for name, token := range map[string]string{"of before": old.AccessToken, "of now": fresh.AccessToken} {
				if status := node.open(c, "/show/", token); status != 200 {
					t.Errorf("the page with a token %s: %d, want 200", name, status)
				}
			}
			if p := node.poll(c, "waits", waits.QueueID); p.Status != 200 || p.Number != waits.Number {
				t.Errorf("a place of before: %+v, want number %d", p, waits.Number)
			}
			_, body := call(t, c, http.MethodGet, "http://"+node.listen+"/_ropeline/.well-known/jwks.json")
			var jwks struct{ Keys []map[string]any }
			if err := json.Unmarshal(body, &jwks); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			want := map[string]int{"EdDSA": 2, "HS256": 0}[algorithm]
			if len(jwks.Keys) != want || strings.Contains(string(body), `"d"`) {
				t.Errorf("public keys %s, want %d and nothing secret", body, want)
			}

			if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			node.said("signing keys not read, the old ones stay")
			if status := node.open(c, "/show/", node.join(c, "show").AccessToken); status != 200 {
				t.Errorf("after a broken file: %d, want 200", status)
			}
		})
	}
}

// keyOf is the id of the key that signed a token.
func keyOf(t *testing.T, token string) string {
	t.Helper()
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	var h struct{ Kid string }
	if err != nil || json.Unmarshal(raw, &h) != nil || h.Kid == "" {
		t.Fatalf("the token begins with %q, %v", raw, err)
	}
	return h.Kid
}
