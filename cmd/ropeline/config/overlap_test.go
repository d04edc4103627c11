package config

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse_RefusesRoomsThatOverlap(t *testing.T) {
	for name, test := range map[string]struct {
		a, b  string // what follows the required keys of each room
		clash string // what both hold, "" = nothing
	}{
		"both everything":             {"", "", "/"},
		"everything and a host":       {"", "hosts: [a.example]", "/"},
		"a host and everything":       {"hosts: [a.example]", "", "/"},
		"other hosts":                 {"hosts: [a.example]", "hosts: [b.example]", ""},
		"hosts that meet":             {"hosts: [a.example, b.example]", "hosts: [c.example, b.example]", "/"},
		"a host and a path on it":     {"hosts: [a.example]", "hosts: [a.example], paths: [/x/]", "/x/"},
		"a path on it and a host":     {"hosts: [a.example], paths: [/x/]", "hosts: [a.example]", "/"},
		"other paths":                 {"paths: [/x/]", "paths: [/y/]", ""},
		"one path":                    {"paths: [/x/]", "paths: [/y/, /x]", "/x/"},
		"one path in another case":    {"paths: [/tickets/]", "paths: [/TicKets]", "/TicKets/"},
		"Kelvin sign and long s":      {"paths: [/tickets/]", `paths: ["/tic\u212aet\u017f/"]`, "/tic\u212aet\u017f/"},
		"a path below":                {"paths: [/x/]", "paths: [/x/y]", "/x/y/"},
		"a path above":                {"paths: [/x/y/z]", "paths: [/X]", "/X/"},
		"the same beginning":          {"paths: [/x]", "paths: [/xy, /x-y]", ""},
		"below a common folder":       {"paths: [/x/a]", "paths: [/x/b]", ""},
		"paths on every and one host": {"paths: [/x/]", "hosts: [a.example], paths: [/x/y/]", "/x/y/"},
		"paths on one and every host": {"hosts: [a.example], paths: [/x/y/]", "paths: [/x/]", "/x/"},
		"every host aside":            {"paths: [/x/]", "hosts: [a.example], paths: [/z/]", ""},
		"whole host beside a path":    {"paths: [/x/]", "hosts: [a.example]", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, twoRooms(test.a, test.b))
			var want []string
			if test.clash != "" {
				want = []string{fmt.Sprintf("rooms[1] (b): overlaps rooms[0] (a): both hold %s; give them other hosts or other paths [line 4]", test.clash)}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func twoRooms(a, b string) string {
	const room = "  - {id: %s, rate: 1/s, active_limit: 5%s}\n"
	more := func(s string) string {
		if s == "" {
			return ""
		}
		return ", " + s
	}
	return "upstream: http://127.0.0.1:9000\nrooms:\n" + fmt.Sprintf(room, "a", more(a)) + fmt.Sprintf(room, "b", more(b))
}

// What find says of two rooms is what comparing every host and path of one with every one of the other says.
func TestClaims_AgreeWithComparingAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"a", "b", "c"})
		path := rapid.StringMatching(`(/[xyK\x{212a}]{1,2}){1,3}/?`)
		room := rapid.Custom(func(t *rapid.T) Room {
			return Room{Hosts: rapid.SliceOfN(host, 0, 2).Draw(t, "hosts"), Paths: rapid.SliceOfN(path, 0, 3).Draw(t, "paths")}
		})
		rooms := rapid.SliceOfN(room, 2, 5).Draw(t, "rooms")
		claims := newClaims()
		for i, r := range rooms {
			first, shown, clash := claims.find(r)
			want := false
			for _, other := range rooms[:i] {
				want = want || meet(other, r)
			}
			if clash != want {
				t.Fatalf("room %d: got %v (%d, %s), want %v", i, clash, first, shown, want)
			}
			if clash && !meet(rooms[first], r) {
				t.Fatalf("room %d: got room %d, which it does not meet", i, first)
			}
			claims.add(i, r)
		}
	})
}

func meet(a, b Room) bool {
	hosts := len(a.Hosts) == 0 || len(b.Hosts) == 0
	for _, x := range a.Hosts {
		for _, y := range b.Hosts {
			hosts = hosts || x == y
		}
	}
	for _, x := range wanted(a) {
		for _, y := range wanted(b) {
			if hosts && (covers(x, y) || covers(y, x)) {
				return true
			}
		}
	}
	return false
}

func TestFold_AgreesWithEqualFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("kK\u212asS\u017fßẞiıİIφϕΦ")), 1, 4, -1)
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if got, want := fold(a) == fold(b), strings.EqualFold(a, b); got != want {
			t.Fatalf("%q and %q: got %v, want %v", a, b, got, want)
		}
	})
}

// An ambiguous path on a host belongs to no room there, so its rooms must agree about what happens to it.
func TestParse_RoomsOnOneHostAgreeAboutAmbiguousPaths(t *testing.T) {
	for name, test := range map[string]struct {
		a, b  string
		clash bool
	}{
		"same host":                {"hosts: [a.example], paths: [/x]", "hosts: [a.example], paths: [/y], ambiguous_paths: gate", true},
		"every host, then one":     {"paths: [/x]", "hosts: [a.example], paths: [/y], ambiguous_paths: gate", true},
		"one host, then every":     {"hosts: [a.example], paths: [/x], ambiguous_paths: gate", "paths: [/y]", true},
		"other hosts":              {"hosts: [a.example], paths: [/x]", "hosts: [b.example], paths: [/y], ambiguous_paths: gate", false},
		"agreed":                   {"paths: [/x], ambiguous_paths: gate", "paths: [/y], ambiguous_paths: gate", false},
		"whole hosts have no rule": {"hosts: [a.example]", "hosts: [b.example], ambiguous_paths: gate", false},
	} {
		got := problems(t, twoRooms(test.a, test.b))
		if clash := len(got) == 1 && strings.HasPrefix(got[0], "rooms[1] (b).ambiguous_paths: is "); clash != test.clash || !clash && got != nil {
			t.Errorf("%s: got %q, want a clash: %v", name, got, test.clash)
		}
	}
}
