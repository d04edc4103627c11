package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParse: whatever the file and the environment hold, Parse does not panic, and returns either a configuration
// that keeps the promises of [Config] or problems of one line each.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"ropeline", "whole-site", "one-path"} {
		data, err := os.ReadFile("../../../configs/" + file + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "ROPELINE_ROOMS_SPRING_TOUR_RATE=50/s")
	}
	for _, seed := range []string{"", base, rooms2, withRoom("rate: 100"), base + "---\n" + base, "a: &a [*a]\n", "rooms: &r [*r]\n",
		"rooms: [&a {<<: *a}]\n", "? [a]\n: b\n", "<<: {upstream: http://a}\nrooms: [{}]", "rooms: [~, {}, [], x]", "\ufeff" + base,
		"upstream: !!map {}\n", "- a: [b\n", "redis.url: x\n", "rooms:\n- id: !!binary eA==\n", "%YAML 1.1\n---\n" + base,
		withRoom("poll: {<<: {min: 3s}, max: 1}"), strings.ReplaceAll(base, "\n", "\r\n")} {
		f.Add([]byte(seed), "ROPELINE_REDIS_URL=redis://a,b?master=c")
	}
	f.Fuzz(func(t *testing.T, data []byte, variable string) {
		cfg, err := Parse(data, []string{variable})
		if err != nil {
			var p *Problems
			if cfg != nil || !errors.As(err, &p) || len(p.List) == 0 {
				t.Fatalf("got %v, %T", cfg, err)
			}
			for _, one := range p.List {
				if s := one.String(); strings.ContainsAny(s, "\n\r") || !utf8.ValidString(s) || one.Key == "" || one.Message == "" {
					t.Errorf("got the problem %q", s)
				}
			}
			return
		}
		holds(t, cfg)
	})
}

func holds(t *testing.T, cfg *Config) {
	if len(cfg.Rooms) == 0 || cfg.Upstream == nil || cfg.Upstream.Host == "" || len(cfg.hash) != 64 {
		t.Fatalf("got %+v", cfg)
	}
	Warnings(cfg)
	ids := map[string]bool{}
	for i, r := range cfg.Rooms {
		if ids[r.ID] || !validID(r.ID) || r.Upstream == nil || r.ActiveLimit < 1 || r.Rate < 0 || r.Session <= 0 || len(r.Languages) == 0 ||
			r.Poll.Min < time.Second || r.Poll.Max < r.Poll.Min || r.Poll.Budget < 1 || r.ClaimWindow < 10*time.Second ||
			r.Sliding && r.Session > r.SessionMax || r.State == "" || r.Title == "" {
			t.Errorf("got the room %+v", r)
		}
		ids[r.ID] = true
		for _, other := range cfg.Rooms[:i] {
			if i < 30 && meet(other, r) {
				t.Errorf("rooms %s and %s overlap", other.ID, r.ID)
			}
		}
	}
}
