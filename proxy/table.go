package proxy

import (
	"slices"
	"strings"
)

// Route is what of a room decides which requests are inside it.
type Route struct {
	Room        string
	Hosts       []string // none: every host
	Paths       []string // prefixes at a segment boundary; none: the whole host
	PublicPaths []string // never gated; compared byte for byte with the raw path
	Gate        bool     // ambiguous_paths: gate; an ambiguous path counts as inside instead of being refused
}

// match says where a request belongs.
type match struct {
	// Rooms are indexes into the routes. None: no room, the request passes. Several: an ambiguous path on a
	// host where that counts as inside every room. Shared: not to be changed.
	Rooms  []int
	Public bool // inside the (one) room but on its list of public paths
	Refuse bool // ambiguous path: 400 ambiguous-path
}

// table finds the room of a request. It is immutable.
//
// On a host with path rooms the longest fitting path wins, then a room of the whole host; a room that names
// the host goes before one that names none.
type table struct {
	hosts map[string]*rules
	other *rules // hosts that no route names
}

// rules are one host's.
type rules struct {
	paths  []pathRule // longest first
	whole  []int      // room of the whole host, or none
	all    []int      // every room here
	refuse bool       // some path room here wants ambiguous paths refused
	public map[int]map[string]struct{}
}

type pathRule struct {
	segments []string // decoded, no empty ones; none covers every path
	room     []int    // one index
}

func newTable(routes []Route) *table {
	t := &table{hosts: make(map[string]*rules)}
	for _, r := range routes {
		for _, h := range r.Hosts {
			t.hosts[hostName(h)] = nil
		}
	}
	for host := range t.hosts {
		t.hosts[host] = newRules(routes, host)
	}
	t.other = newRules(routes, "")
	return t
}

// newRules gathers the rules of a host; those of routes that name it come first.
func newRules(routes []Route, host string) *rules {
	rs := &rules{public: make(map[int]map[string]struct{})}
	for i, r := range routes {
		if slices.ContainsFunc(r.Hosts, func(h string) bool { return hostName(h) == host }) {
			rs.add(i, r)
		}
	}
	for i, r := range routes {
		if len(r.Hosts) == 0 {
			rs.add(i, r)
		}
	}
	slices.SortStableFunc(rs.paths, func(a, b pathRule) int { return len(b.segments) - len(a.segments) })
	return rs
}

func (rs *rules) add(index int, r Route) {
	room := []int{index}
	rs.all = append(rs.all, index)
	if len(r.Paths) == 0 && rs.whole == nil {
		rs.whole = room
	}
	for _, p := range r.Paths {
		segments := slices.DeleteFunc(strings.Split(decode(p), "/"), func(s string) bool { return s == "" })
		rs.paths = append(rs.paths, pathRule{segments, room})
	}
	if len(r.Paths) > 0 && !r.Gate {
		rs.refuse = true
	}
	rs.public[index] = make(map[string]struct{}, len(r.PublicPaths))
	for _, p := range r.PublicPaths {
		rs.public[index][p] = struct{}{}
	}
}

// match finds the room of a raw path on a host in its canonical spelling. It does not allocate for a path
// without escapes.
func (t *table) match(host, rawPath string) match {
	rs, ok := t.hosts[withoutPort(host)]
	if !ok {
		rs = t.other
	}
	if len(rs.paths) > 0 && ambiguous(rawPath) {
		if rs.refuse {
			return match{Refuse: true}
		}
		return match{Rooms: rs.all}
	}
	room := rs.room(rawPath)
	if room == nil {
		return match{}
	}
	_, public := rs.public[room[0]][rawPath]
	return match{Rooms: room, Public: public}
}

func (rs *rules) room(rawPath string) []int {
	for i := range rs.paths {
		if rs.paths[i].covers(rawPath) {
			return rs.paths[i].room
		}
	}
	return rs.whole
}

// covers walks the segments of a path that is not ambiguous.
func (p *pathRule) covers(rawPath string) bool {
	rest := strings.TrimPrefix(rawPath, "/")
	for _, want := range p.segments {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		if !sameSegment(segment, want) {
			return false
		}
	}
	return true
}

// hostName is the key of a configured host: canonical, without its port, since a room is the same room on
// every port. What is no host at all is kept as it is and matches nothing.
func hostName(host string) string {
	if canonical, ok := canonicalHost(host, false); ok {
		host = canonical
	}
	return withoutPort(host)
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}
