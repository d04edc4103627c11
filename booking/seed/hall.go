package seed

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"ropeline/booking"
)

// Hall is the seats that all its events share.
type Hall struct {
	ID    int64
	Name  string
	Seats []booking.LayoutSeat // in the order of the file; codes are unique

	index map[string]int // code -> position in Seats
}

// maxHall is the most seats of one hall.
const maxHall = 200_000

var (
	codeShape = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,32}$`) // as the check on bk.map_seat
	tierShape = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)
)

const tierWords = "1 to 40 letters, digits or _ . -"

// hall reads one entry of halls.
func hall(n node) Hall {
	h := Hall{index: map[string]int{}}
	rows := map[string]int{} // rows of each section so far: they are ranked from the front
	n.fields(map[string]func(node){
		"id":   func(v node) { h.ID = v.whole(1, math.MaxInt64) },
		"name": func(v node) { h.Name = v.text(200) },
		"sections": func(v node) {
			v.each(func(s node) { h.block(s, rows) })
		},
	}, "id", "name", "sections")
	return h
}

// block is an entry of sections: equal rows of one tier.
type block struct {
	section, tier, code string
	rows                []string
	seats, first        int64
	rank                int64
}

func (h *Hall) block(n node, rows map[string]int) {
	b := block{code: "{row}{seat}", first: 1}
	var accessible node
	n.fields(map[string]func(node){
		"name":       func(v node) { b.section = v.text(40) },
		"tier":       func(v node) { b.tier = v.match(tierShape, tierWords) },
		"code":       func(v node) { b.code = v.text(64) },
		"rows":       func(v node) { b.rows = rowNames(v) },
		"seats":      func(v node) { b.seats = v.whole(1, 10_000) },
		"first":      func(v node) { b.first = v.whole(0, 100_000) },
		"rank":       func(v node) { b.rank = v.whole(0, 1_000_000) },
		"accessible": func(v node) { accessible = v },
	}, "name", "rows", "seats", "tier")
	if int64(len(b.rows))*b.seats+int64(len(h.Seats)) > maxHall {
		n.wrong("the hall has more than %d seats", maxHall)
		return
	}
	for _, row := range b.rows {
		for i := range b.seats {
			if !h.add(n, b, row, i, rows[b.section]) {
				return // one complaint for a block is enough
			}
		}
		rows[b.section]++
	}
	if accessible.Node != nil {
		for _, code := range h.pick(accessible) {
			h.Seats[h.index[code]].Accessible = true
		}
	}
}

// add puts seat i of a row of b into the hall. depth is how many rows of the section stand in front of it.
func (h *Hall) add(n node, b block, row string, i int64, depth int) bool {
	code := strings.NewReplacer("{section}", b.section, "{row}", row, "{seat}", strconv.FormatInt(b.first+i, 10)).Replace(b.code)
	switch _, taken := h.index[code]; {
	case !codeShape.MatchString(code) || strings.Contains(code, ".."):
		n.wrong("seat %q: a code is 1 to 32 letters, digits or _ . : - without two dots in a row", code)
		return false
	case taken:
		n.wrong("seat %q is there twice; its row needs another name, or code a {section}", code)
		return false
	}
	aside := 2*i + 1 - b.seats // from the middle of the row, in half seats
	h.index[code] = len(h.Seats)
	h.Seats = append(h.Seats, booking.LayoutSeat{
		Code: code, Section: b.section, Row: row, Pos: int(b.first + i), Tier: b.tier,
		Rank: int(b.rank) + depth + int(max(aside, -aside)/2),
	})
	return true
}

// tiers are the tiers of the hall, each once, in order of their first seat.
func (h *Hall) tiers() []string {
	var all []string
	seen := map[string]bool{}
	for _, s := range h.Seats {
		if !seen[s.Tier] {
			seen[s.Tier] = true
			all = append(all, s.Tier)
		}
	}
	return all
}
