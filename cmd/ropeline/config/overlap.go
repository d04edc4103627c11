package config

import (
	"strings"
	"unicode"
)

// maxPlaces bounds how many pairs of host and path all rooms hold together.
const maxPlaces = 100_000

// together checks what rooms may not do to each other: have one id, claim one path of one host, or treat the odd
// paths of one host in two ways. One pass over all paths, however many rooms there are.
func (c *checker) together() {
	ids := map[string]int{}
	claims := newClaims()
	odd := oddPaths{}
	places := 0
	for i, r := range c.cfg.Rooms {
		key := c.labels[i] + ".id"
		if first, twice := ids[r.ID]; twice && c.ok(key) {
			c.add(key, "%s is the id of rooms[%d] too, each room needs its own", quote(r.ID), first)
		} else if c.ok(key) {
			ids[r.ID] = i
		}
		if !c.ok(c.labels[i]+".hosts", c.labels[i]+".paths") {
			continue
		}
		if places += max(1, len(r.Hosts)) * max(1, len(r.Paths)); places > maxPlaces {
			c.add("rooms", "hold more than %d pairs of host and path, write fewer", maxPlaces)
			return
		}
		if first, path, clash := claims.find(r); clash {
			c.add(c.labels[i], "overlaps %s: both hold %s; give them other hosts or other paths", c.labels[first], path)
		}
		claims.add(i, r)
		if first, clash := odd.add(i, r); clash && c.ok(c.labels[i]+".ambiguous_paths", c.labels[first]+".ambiguous_paths") {
			c.add(c.labels[i]+".ambiguous_paths", "is %s, but %s on the same host has %s; rooms that share a host must agree",
				r.AmbiguousPaths, c.labels[first], c.cfg.Rooms[first].AmbiguousPaths)
		}
	}
}

// oddPaths remembers, for each host, the first room with paths there under each rule for ambiguous paths: such a path
// belongs to no room, so those that share a host must agree.
type oddPaths map[oddRule]int

type oddRule struct{ host, rule string } // host "" = rooms on every host, "*" = all rooms

// add notes room i. It returns a room on the same host that has another rule.
func (o oddPaths) add(i int, r Room) (first int, clash bool) {
	if len(r.Paths) == 0 {
		return 0, false
	}
	hosts, among := r.Hosts, append([]string{""}, r.Hosts...)
	if len(r.Hosts) == 0 {
		hosts, among = []string{""}, []string{"*"}
	}
	other := map[string]string{"refuse": "gate", "gate": "refuse"}[r.AmbiguousPaths]
	for _, host := range among {
		if at, ok := o[oddRule{host, other}]; ok && !clash {
			first, clash = at, true
		}
	}
	for _, host := range append([]string{"*"}, hosts...) {
		if _, ok := o[oddRule{host, r.AmbiguousPaths}]; !ok {
			o[oddRule{host, r.AmbiguousPaths}] = i
		}
	}
	return first, clash
}

// claims are the prefixes that rooms hold, folded, by host.
type claims struct {
	every, all map[string]held            // those of rooms on every host; those of all rooms
	hosts      map[string]map[string]held // those of rooms on a named host
}

// held is a prefix with the room that claimed it first. own is false for what only lies above a claimed prefix.
type held struct {
	room int
	own  bool
}

func newClaims() *claims {
	return &claims{every: map[string]held{}, all: map[string]held{}, hosts: map[string]map[string]held{}}
}

// find returns a room that holds what r wants, and a prefix that both hold.
func (cl *claims) find(r Room) (room int, path string, found bool) {
	var among []map[string]held
	if len(r.Hosts) == 0 {
		among = append(among, cl.all)
	} else {
		among = append(among, cl.every)
	}
	for _, host := range r.Hosts {
		if m, ok := cl.hosts[host]; ok {
			among = append(among, m)
		}
	}
	for _, m := range among {
		for _, path := range wanted(r) {
			if h, ok := m[fold(path)]; ok { // claimed, or something below it is
				return h.room, show(path), true
			}
			for _, above := range ancestors(path) {
				if h, ok := m[fold(above)]; ok && h.own {
					return h.room, show(path), true
				}
			}
		}
	}
	return 0, "", false
}

func (cl *claims) add(i int, r Room) {
	into := []map[string]held{cl.all}
	if len(r.Hosts) == 0 {
		into = append(into, cl.every)
	}
	for _, host := range r.Hosts {
		if cl.hosts[host] == nil {
			cl.hosts[host] = map[string]held{}
		}
		into = append(into, cl.hosts[host])
	}
	for _, m := range into {
		for _, path := range wanted(r) {
			m[fold(path)] = held{room: i, own: true}
			for _, above := range ancestors(path) {
				if _, ok := m[fold(above)]; !ok {
					m[fold(above)] = held{room: i}
				}
			}
		}
	}
}

// wanted are the prefixes of a room without slashes at their ends; "" is the whole host.
func wanted(r Room) []string {
	if len(r.Paths) == 0 {
		return []string{""}
	}
	out := make([]string, len(r.Paths))
	for i, path := range r.Paths {
		out[i] = strings.TrimSuffix(path, "/")
	}
	return out
}

// ancestors are the prefixes that hold path, "" among them, without path itself.
func ancestors(path string) []string {
	var out []string
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path, '/') {
		path = path[:i]
		out = append(out, path)
	}
	return out
}

func show(path string) string { return path + "/" }

// fold maps texts that strings.EqualFold calls equal, and only those, to one text: each rune becomes the smallest of
// those it folds with.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}
