package config

import (
	"slices"
	"testing"
)

func TestChanges_NamesEachKeyOnce(t *testing.T) {
	old := mustParse(t, `upstream: http://127.0.0.1:9000
redis: {url: "redis://:secret@127.0.0.1"}
rooms:
  - {id: a, rate: 10/s, active_limit: 5, paths: [/a/]}
  - {id: gone, rate: 1/s, active_limit: 5, paths: [/g/]}
`)
	now := mustParse(t, `upstream: http://127.0.0.1:9000
redis: {url: "redis://:other@127.0.0.1:1"}
rooms:
  - {id: come, rate: 1/s, active_limit: 5, paths: [/c/]}
  - {id: a, rate: 200/s, active_limit: 5, paths: [/a/], state: paused, opens_at: 2026-12-10T10:00:00+07:00, poll: {min: 3s}}
`)
	want := []string{
		"redis.url: redis://:xxxxx@127.0.0.1 -> redis://:xxxxx@127.0.0.1:1", "come: added",
		"a.opens_at: none -> 2026-12-10T10:00:00+07:00", `a.state: "open" -> "paused"`, "a.rate: 10/s -> 200/s",
		"a.poll.min: 2s -> 3s", "gone: removed",
	}
	got := Changes(old, now)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		for i, line := range got {
			t.Logf("got  %d %s", i, line)
		}
		t.Errorf("got %d changes, want %q", len(got), want)
	}
	if got := Changes(now, now); len(got) != 0 {
		t.Errorf("the same: %q", got)
	}
}
