package proxy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTable_WholeHostGatesAllButPublicBytes(t *testing.T) {
	tab := newTable([]Route{{Room: "r", Hosts: []string{"A.test"}, PublicPaths: []string{"/poster.jpg"}}})
	for p, public := range map[string]bool{
		"/": false, "/poster.jpg": true, "/Poster.jpg": false, "/poster%2ejpg": false, "/x/../poster.jpg": false,
		"/poster.jpg/": false, "/%2e%2e;/": false, "/a//b": false,
	} {
		m := tab.match("a.test:8080", p)
		if len(m.Rooms) != 1 || m.Public != public || m.Refuse {
			t.Errorf("%s: got %+v, want in the room, public %v", p, m, public)
		}
	}
	if m := tab.match("b.test", "/"); m.Rooms != nil || m.Refuse {
		t.Errorf("another host: got %+v, want no room", m)
	}
}

func TestTable_PathRoomsMatchAtSegmentsWithCaseFolded(t *testing.T) {
	tab := newTable([]Route{
		{Room: "tickets", Hosts: []string{"a.test"}, Paths: []string{"/tickets/"}, PublicPaths: []string{"/tickets/poster.jpg"}},
		{Room: "vip", Hosts: []string{"a.test"}, Paths: []string{"/tickets/vip", "/kỷ-niệm/"}},
		{Room: "everywhere", Paths: []string{"/shop/"}},
	})
	for p, want := range map[string]int{
		"/tickets": 0, "/tickets/": 0, "/tickets/1": 0, "/TICKETS/1": 0, "/%74ickets/1": 0, "/tic\u212aets/1": 0,
		"/ticket\u017f/1": 0, "/tic%E2%84%AAets": 0, "/t\u0131ckets/1": 0, "/tickets./1": 0, "/tickets%20/1": 0, "/tickets/poster.jpg": 0,
		"/tickets/vip": 1, "/tickets/VIP/x": 1, "/tickets/vipx": 0, "/k%E1%BB%B7-ni%E1%BB%87m/1": 1, "/K%E1%BB%B6-NI%E1%BB%86M": 1,
		"/shop/1": 2, "/ticketsx": -1, "/": -1, "/ticket": -1, "/x/tickets/": -1, "/static/a.css": -1, "/wiki/Inc.": -1,
	} {
		m := tab.match("a.test", p)
		got := -1
		if len(m.Rooms) == 1 {
			got = m.Rooms[0]
		}
		if got != want || m.Refuse || m.Public != (p == "/tickets/poster.jpg") {
			t.Errorf("%s: got %+v, want room %d", p, m, want)
		}
	}
	if m := tab.match("other.test", "/SHOP"); !slices.Equal(m.Rooms, []int{2}) {
		t.Errorf("a room without hosts: got %+v on another host", m)
	}
	if m := tab.match("other.test", "/tickets/"); m.Rooms != nil {
		t.Errorf("a room of a.test: got %+v on another host", m)
	}
}

// ambiguousPaths: each is read differently by some server.
var ambiguousPaths = []string{
	"/a%2fb", "/a%2Fb", "/a%5cb", "/a%00b", "/%2574ickets", "/a%25%37%34", "/a%25u0074", "/./a", "/a/.", "/a/..", "/a/../b", "/%2e/a",
	"/a/.%2E/b", "/a//b", "/a//", "/a\\b", "/a;x", "/a%3bx", "/a#b", "/a%23b", "/a%3fb", "/a%0ab", "/a%7f", "/a\x01b", "/a%c0%afb", "/a\xff", "/a%zz", "/a%2",
}

func TestTable_AmbiguousPathsAreRefusedOrInsideEveryRoom(t *testing.T) {
	strict := newTable([]Route{{Room: "r", Hosts: []string{"a.test"}, Paths: []string{"/tickets/"}}, {Room: "g", Paths: []string{"/shop/"}, Gate: true}})
	gate := newTable([]Route{{Room: "r", Paths: []string{"/tickets/"}, Gate: true}, {Room: "g", Paths: []string{"/shop/"}, Gate: true}})
	for _, p := range ambiguousPaths {
		if m := strict.match("a.test", p); !m.Refuse || m.Rooms != nil {
			t.Errorf("refuse mode, %q: got %+v", p, m)
		}
		if m := gate.match("a.test", p); m.Refuse || !slices.Equal(m.Rooms, []int{0, 1}) || m.Public {
			t.Errorf("gate mode, %q: got %+v", p, m)
		}
	}
	for _, p := range []string{"/", "/a/", "/a.b/..c/d..", "/...", "/100%25/x", "/a%25%20b", "/a%20b+c", "/caf%C3%A9", "/%E1%BB%B7", "/a:b@c,d=e&f"} {
		if m := strict.match("a.test", p); m.Refuse {
			t.Errorf("%q is plain but was refused", p)
		}
	}
}

// FuzzMatch holds the table against a reader that decodes, cleans and folds: what that reader takes for
// a protected path is never outside the room.
func FuzzMatch(f *testing.F) {
	for _, p := range append(slices.Clone(ambiguousPaths), matrix...) {
		f.Add(p)
	}
	for _, p := range []string{"/tickets", "/tic\u212aets/1", "/t%C4%B1ckets", "/x/tickets", "/tickets/%E2%84%AA", "/T%49ckets/"} {
		f.Add(p)
	}
	refuse := newTable([]Route{{Room: "r", Paths: []string{"/tickets/"}}})
	gate := newTable([]Route{{Room: "r", Paths: []string{"/tickets/"}, Gate: true}})
	whole := newTable([]Route{{Room: "r", PublicPaths: []string{"/poster"}}})
	f.Fuzz(func(t *testing.T, target string) {
		raw, _, _ := strings.Cut(target, "?")
		r, g, w := refuse.match("a.test", raw), gate.match("a.test", raw), whole.match("a.test", raw)
		if len(w.Rooms) != 1 || w.Public != (raw == "/poster") {
			t.Fatalf("whole host, %q: got %+v", raw, w)
		}
		if r.Refuse != ambiguous(raw) || g.Refuse {
			t.Fatalf("%q: refuse mode %+v, gate mode %+v, ambiguous %v", raw, r, g, ambiguous(raw))
		}
		if r.Refuse && len(g.Rooms) == 0 {
			t.Fatalf("%q is ambiguous and in no room", raw)
		}
		for _, read := range readers {
			if p := read(raw); (p == "/tickets" || strings.HasPrefix(p, "/tickets/")) && (!r.Refuse && len(r.Rooms) == 0 || len(g.Rooms) == 0) {
				t.Fatalf("a reader takes %q for %q, but it is outside: refuse mode %+v, gate mode %+v", raw, p, r, g)
			}
		}
	})
}

// readers are models of how servers read a raw path.
var readers = []func(string) string{
	func(p string) string { return p },
	func(p string) string { return path.Clean("/" + decode(p)) },
	func(p string) string { return path.Clean("/" + foldAll(decode(p))) },
	func(p string) string { return path.Clean("/" + foldAll(decode(decode(p)))) },
	func(p string) string { return path.Clean("/" + strings.ReplaceAll(foldAll(decode(p)), `\`, "/")) },
	func(p string) string {
		before, _, _ := strings.Cut(p, "#")
		segments := strings.Split(decode(before), "/")
		for i := range segments {
			segments[i], _, _ = strings.Cut(segments[i], ";")
		}
		return path.Clean("/" + foldAll(strings.Join(segments, "/")))
	},
	func(p string) string {
		before, _, _ := strings.Cut(foldAll(decode(p)), "\x00")
		return path.Clean("/" + before)
	},
}

func foldAll(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, s)
}

func BenchmarkMatch(b *testing.B) {
	var routes []Route
	for i := range 200 {
		routes = append(routes, Route{Room: fmt.Sprint(i), Hosts: []string{fmt.Sprintf("h%d.test", i)}, Paths: []string{"/events/spring-tour/", "/api/orders/"}})
	}
	tab := newTable(routes)
	b.ReportAllocs()
	for b.Loop() {
		if m := tab.match("h77.test:8080", "/events/spring-tour/seats/12"); len(m.Rooms) != 1 {
			b.Fatal(m)
		}
	}
}
