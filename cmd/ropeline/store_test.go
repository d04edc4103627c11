package main

import (
	"strings"
	"testing"

	"ropeline/internal/redisbox/redistest"
)

func TestRedisOptions_ReadsWhatTheConfigurationNames(t *testing.T) {
	tests := []struct {
		url            string
		addrs, master  string
		db             int
		user, password string
		tls            bool
		sentinelUser   string
	}{
		{url: "redis://127.0.0.1", addrs: "127.0.0.1:6379"},
		{url: "redis://a:1/3", addrs: "a:1", db: 3},
		{url: "redis://me:p%40ss@a:1,b,[::1]:7", addrs: "a:1 b:6379 [::1]:7", user: "me", password: "p@ss"},
		{url: "redis://[::1]", addrs: "[::1]:6379"},
		{url: "rediss://:secret@a:1?master=main&sentinel_user=s", addrs: "a:1", master: "main", password: "secret", tls: true, sentinelUser: "s"},
	}
	for _, test := range tests {
		o, err := redisOptions(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if got := strings.Join(o.Addrs, " "); got != test.addrs || o.MasterName != test.master || o.DB != test.db ||
			o.Username != test.user || o.Password != test.password || (o.TLSConfig != nil) != test.tls || o.SentinelUsername != test.sentinelUser {
			t.Errorf("%s: addrs %q, %+v", test.url, got, o)
		}
		if o.MaxRetries != -1 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: retries %d, context timeouts %v; want -1 and true", test.url, o.MaxRetries, o.ContextTimeoutEnabled)
		}
	}
	if _, err := redisOptions("redis://a/x"); err == nil {
		t.Error("a database that is no number was taken")
	}
}

func TestStore_WarnsOfARedisThatThrowsKeysAway(t *testing.T) {
	for policy, want := range map[string]int{"noeviction": 0, "allkeys-lru": 1} {
		server := redistest.Private(t, "--maxmemory-policy", policy)
		s, err := connect(server.URL(), "Redis", func() {})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.warnings(t.Context()); len(got) != want {
			t.Errorf("%s: %q, want %d warnings", policy, got, want)
		}
		s.close()
	}
}
