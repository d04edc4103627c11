package config

import (
	"slices"
	"strings"
	"testing"
)

func TestWarnings_SayWhatIsUnwise(t *testing.T) {
	const safe = "redis: {url: 'redis://127.0.0.1'}\nsigning: {keys_file: keys.json}\n" + base
	if got := Warnings(mustParse(t, safe)); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
	for name, test := range map[string]struct{ text, want string }{
		"no keys":         {"redis: {url: 'redis://127.0.0.1'}\n" + base, "signing.keys_file: none is given, so keys are made once and kept in Redis: losing Redis and every node at once voids all places"},
		"embedded":        {strings.Replace(safe, "redis://127.0.0.1", "embedded", 1), "redis.url: embedded keeps lines inside this process"},
		"auto":            {strings.Replace(safe, "redis://127.0.0.1", "auto", 1), "redis.url: auto keeps lines in a Redis of this process's own"},
		"public admin":    {"admin_listen: 0.0.0.0:9901\n" + safe, "admin_listen: 0.0.0.0:9901 is not a loopback address, and the admin API asks nobody for a password"},
		"named admin":     {"admin_listen: admin.example:9901\n" + safe, "admin_listen: admin.example:9901 is not a loopback address"},
		"trusts everyone": {"trusted_proxies: ['::/0']\n" + safe, "trusted_proxies: ::/0 trusts everyone"},
		"path room":       {safe + "    hosts: [a.example]\n    upstream: http://127.0.0.1:9009\n    paths: [/x/]\n", "rooms[0] (spring-tour).paths: on a.example a path that can be read in two ways is refused with 400, also outside the room"},
		"path room gate":  {safe + "    ambiguous_paths: gate\n    paths: [/x/]\n", "rooms[0] (spring-tour).paths: on every host a path that can be read in two ways counts as inside the room"},
		"other hosts":     {safe + "    hosts: [a.example]\n", "rooms[0] (spring-tour).hosts: a request that names any other host passes to the same upstream, http://127.0.0.1:9000, without waiting"},
		"shared secret":   {strings.Replace(safe, "{keys_file", "{algorithm: HS256, keys_file", 1) + "    forward_token: true\n", "rooms[0] (spring-tour).forward_token: with HS256"},
	} {
		got := Warnings(mustParse(t, test.text))
		if len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	for _, admin := range []string{"localhost:1", "'[::1]:1'", "127.9.9.9:1"} {
		if got := Warnings(mustParse(t, "admin_listen: "+admin+"\n"+safe)); len(got) != 0 {
			t.Errorf("admin_listen %s: got %q, want none", admin, got)
		}
	}
}

func TestNeedsRestart_NamesWhatCannotChangeLive(t *testing.T) {
	old := mustParse(t, base)
	live := mustParse(t, `upstream: http://127.0.0.1:9001
log: {level: debug}
rooms:
  - {id: another, rate: 1/s, active_limit: 1, session: 1m, opens_at: 2026-12-10T10:00:00Z}
`)
	if got := NeedsRestart(old, live); len(got) != 0 {
		t.Errorf("what takes effect live: got %q, want none", got)
	}
	all := mustParse(t, `listen: :81
admin_listen: 127.0.0.1:82
trusted_proxies: [10.0.0.0/8]
tls: {cert_file: a, key_file: b}
redis: {url: embedded}
signing: {algorithm: HS256, keys_file: k}
log: {format: text}
shutdown_grace: 5s
`+base)
	want := []string{"listen", "admin_listen", "trusted_proxies", "tls.cert_file", "tls.key_file", "redis.url",
		"signing.algorithm", "signing.keys_file", "log.format", "shutdown_grace"}
	if got := NeedsRestart(old, all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := NeedsRestart(all, all); len(got) != 0 {
		t.Errorf("the same: got %q, want none", got)
	}
}
