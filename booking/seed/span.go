package seed

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSpan is the most that one a..b stands for.
const maxSpan = 10_000

// span lists what from..to stands for: both have the same beginning and end in a number (7..12, A1..A9), or in one letter
// each (A..F). ok is false if they are neither, run backwards, or stand for more than maxSpan.
func span(from, to string) (names []string, ok bool) {
	head, n := cutNumber(from)
	tail, m := cutNumber(to)
	if n >= 0 && m >= n && head == tail && m-n < maxSpan {
		for i := n; i <= m; i++ {
			names = append(names, head+strconv.Itoa(i))
		}
		return names, true
	}
	if len(from) == 0 || len(from) != len(to) || from[:len(from)-1] != to[:len(to)-1] {
		return nil, false
	}
	a, z := from[len(from)-1], to[len(to)-1]
	if a > z || !letter(a) || !letter(z) || (a <= 'Z') != (z <= 'Z') {
		return nil, false
	}
	for c := a; c <= z; c++ {
		names = append(names, from[:len(from)-1]+string(rune(c)))
	}
	return names, true
}

func letter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }

// cutNumber cuts the number that s ends in; n is -1 if it ends in none, or in one that another spelling has too.
func cutNumber(s string) (head string, n int) {
	head = strings.TrimRight(s, "0123456789")
	digits := s[len(head):]
	if len(digits) > 1 && digits[0] == '0' {
		return s, -1
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return s, -1
	}
	return head, n
}

// names reads a list of names and spans.
func names(n node) (all []string) {
	n.each(func(v node) {
		s := v.text(100)
		from, to, is := strings.Cut(s, "..")
		if !is {
			if s != "" {
				all = append(all, s)
			}
			return
		}
		list, ok := span(from, to)
		if !ok {
			v.wrong("%q is no span: A..F, 1..12 or A1..A9, at most %d", s, maxSpan)
		}
		all = append(all, list...)
	})
	return all
}

// rowNames reads the rows of a block.
func rowNames(n node) []string {
	all := names(n)
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			n.wrong("row %q is there twice", sorted[i])
			return nil
		}
	}
	return all
}

// pick reads a list of seats of the hall: codes, spans of codes, and {section: NAME, rows: ...}.
func (h *Hall) pick(n node) (codes []string) {
	n.each(func(v node) {
		if v.Kind == yaml.MappingNode {
			codes = append(codes, h.pickRows(v)...)
			return
		}
		for _, code := range names(v) {
			if _, ok := h.index[code]; !ok {
				v.wrong("%q is not a seat of hall %d", code, h.ID)
				return
			}
			codes = append(codes, code)
		}
	})
	return codes
}

// pickRows are the seats of {section: NAME, rows: ...}; without rows, all of the section.
func (h *Hall) pickRows(n node) (codes []string) {
	var section string
	var rows []string
	all := true
	n.fields(map[string]func(node){
		"section": func(v node) { section = v.text(40) },
		"rows":    func(v node) { rows, all = rowNames(v), false },
	}, "section")
	for _, s := range h.Seats {
		if s.Section == section && (all || slices.Contains(rows, s.Row)) {
			codes = append(codes, s.Code)
		}
	}
	if len(codes) == 0 && section != "" {
		n.wrong("stands for no seat of hall %d", h.ID)
	}
	return codes
}
