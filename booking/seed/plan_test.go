package seed

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const small = `
halls:
  - id: 7
    name: Small
    sections:
      - {name: Stalls, rows: A..B, seats: 4, tier: front}
      - {name: Stalls, rows: C, seats: 3, tier: back, accessible: [C1, C3]}
      - {name: Box, rows: 1..2, seats: 2, tier: back, code: "{section}-{row}-{seat}", rank: 50}
events:
  - id: 70
    hall: 7
    name: Play
    starts_at: 2026-12-24T19:30:00+07:00
    currency: VND
    hold: 5m
    prices: {front: {standard: 200, child: 100}, back: 90}
    blocked: [A1, B2..B3]
    channels: {3: [{section: Box, rows: 2}, C2]}
`

func parsed(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return p
}

func TestParse_ReadsHallsAndEvents(t *testing.T) {
	p := parsed(t, small)
	h, e := p.Halls[0], p.Events[0]
	var codes, accessible []string
	for _, s := range h.Seats {
		codes = append(codes, s.Code)
		if s.Accessible {
			accessible = append(accessible, s.Code)
		}
	}
	if got, want := strings.Join(codes, " "), "A1 A2 A3 A4 B1 B2 B3 B4 C1 C2 C3 Box-1-1 Box-1-2 Box-2-1 Box-2-2"; got != want {
		t.Errorf("seats %s, want %s", got, want)
	}
	if !slices.Equal(accessible, []string{"C1", "C3"}) {
		t.Errorf("accessible: %v", accessible)
	}
	if c2 := h.Seats[9]; c2.Section != "Stalls" || c2.Row != "C" || c2.Pos != 2 || c2.Tier != "back" || c2.Rank != 2 {
		t.Errorf("C2 is %+v: want the middle of the third row", c2)
	}
	if box := h.Seats[11]; box.Rank != 50 || box.Tier != "back" {
		t.Errorf("Box-1-1 is %+v", box)
	}
	if len(e.Blocked) != 3 || !e.Blocked["B3"] || len(e.Channels) != 3 || e.Channels["Box-2-1"] != 3 || e.Channels["C2"] != 3 {
		t.Errorf("blocked %v, channels %v", e.Blocked, e.Channels)
	}
	if len(e.Prices) != 3 || e.Prices[0].Tier != "back" || e.Prices[0].Amount != 90 || e.Prices[1].TicketType != "child" {
		t.Errorf("prices %+v", e.Prices)
	}
	if e.HoldTTL != 5*time.Minute || e.CheckoutTTL != 4*time.Minute || e.MaxHoldAge != 10*time.Minute || e.MaxSeats != 8 || e.Status != "ON_SALE" {
		t.Errorf("defaults: %+v", e.Event)
	}
}

// Each line is a change to the small file, and what must be said about it.
func TestParse_NamesWhatIsWrongByItsKey(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"id: 7", "id: seven", `halls[0].id: "seven" is not a whole number`},
		{"seats: 4", "seats: 0", `halls[0].sections[0].seats: "0" is not`},
		{"seats: 4", "seats: 10000, first: 100000", ""}, // large, but it fits
		{"rows: A..B, seats: 4", "rows: 1..30, seats: 10000", "halls[0].sections[0]: the hall has more than 200000 seats"},
		{"rows: A..B", "rows: B..A", `halls[0].sections[0].rows: "B..A" is no span`},
		{"rows: A..B", "rows: [A, B, A]", `row "A" is there twice`},
		{"rows: C,", "rows: B,", `halls[0].sections[1]: seat "B1" is there twice`},
		{"{section}-{row}", "{section}/{row}", `seat "Box/1-1"`},
		{"accessible: [C1, C3]", "accessible: [C9]", `halls[0].sections[1].accessible[0]: "C9" is not a seat of hall 7`},
		{"tier: front", "teir: front", "halls[0].sections[0].teir: is not a key here"},
		{"tier: front", "tier: ", "halls[0].sections[0]: tier is missing"},
		{"hall: 7", "hall: 8", "events[0]: hall 8 is not in this file"},
		{"id: 70", "id: 70\n    id: 71", "is there twice"},
		{"back: 90", "bakc: 90", `prices has none for tier "back"`},
		{"front: {standard: 200, child: 100}", "front: {standard: -1}", `events[0].prices.front.standard: "-1"`},
		{"currency: VND", "currency: dong", `events[0].currency: "dong" is not a currency`},
		{"+07:00", "", "events[0].starts_at:"},
		{"hold: 5m", "hold: 5", `events[0].hold: "5" is not a time`},
		{"hold: 5m", "hold: 5m\n    checkout: 5m", "checkout of 5m0s is not shorter than hold of 5m0s"},
		{"hold: 5m", "hold: 5m\n    max_hold_age: 4m", "max_hold_age of 4m0s is shorter"},
		{"hold: 5m", "zone: Saigon", `events[0].zone: "Saigon" is not a time zone`},
		{"hold: 5m", "rooms: [Spring Tour]", `"Spring Tour" is not a room's id`},
		{"hold: 5m", "opens_at: 2026-01-02T00:00:00Z\n    closes_at: 2026-01-01T00:00:00Z", "closes_at is not after opens_at"},
		{"hold: 5m", "kind: festival", `"festival" is not one of`},
		{"blocked: [A1", "blocked: [Z1", `events[0].blocked[0]: "Z1" is not a seat`},
		{"channels: {3:", "channels: {63:", `events[0].channels.63: "63" is not`},
		{"channels: {3:", "channels: {1: [C2], 3:", `seat "C2" is on channel 1 already`},
		{"section: Box, rows: 2", "section: Boxes", "stands for no seat of hall 7"},
		{"halls:", "hals:", "hals: is not a key here"},
		{"events:", "---\nevents:", "holds a second YAML document"},
		{"name: Small", "name: [", "is not YAML"},
	} {
		if !strings.Contains(small, c.from) {
			t.Fatalf("%q is not in the small file", c.from)
		}
		_, err := Parse([]byte(strings.Replace(small, c.from, c.to, 1)))
		if c.want == "" {
			if strings.Contains(c.to, "seats") && err != nil && !strings.Contains(err.Error(), "not a seat") {
				t.Errorf("%s: %v, want nothing but the seats that are gone", c.to, err)
			}
			continue
		}
		var problems Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s instead of %s: %v\nwant %s", c.to, c.from, err, c.want)
		}
	}
}

func TestParse_NamesAllProblemsInTheOrderOfTheFile(t *testing.T) {
	text := strings.NewReplacer("seats: 3", "seats: x", "currency: VND", "currency: dong", "tier: front", "tier: /").Replace(small)
	_, err := Parse([]byte(text))
	var problems Problems
	if !errors.As(err, &problems) || len(problems) < 3 {
		t.Fatalf("%v", err)
	}
	if !slices.IsSortedFunc(problems, func(a, b Problem) int { return a.Line - b.Line }) || problems[0].Line == 0 {
		t.Errorf("not by line:\n%v", err)
	}
}

func TestParse_EmptyFilesAreRefused(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "[]", "halls:\nevents:\n", "halls: []"} {
		if p, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q: %+v, want an error", text, p)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"A", "D", "A B C D"}, {"7", "10", "7 8 9 10"}, {"A9", "A11", "A9 A10 A11"}, {"N1-2-8", "N1-2-9", "N1-2-8 N1-2-9"}, {"AA", "AC", "AA AB AC"},
		{"5", "5", "5"}, {"B", "A", ""}, {"A1", "B2", ""}, {"Y", "b", ""}, {"01", "03", ""}, {"1", "20000", ""}, {"", "A", ""}, {"?", "A", ""},
	} {
		names, ok := span(c.from, c.to)
		if got := strings.Join(names, " "); got != c.want || ok != (c.want != "") {
			t.Errorf("%s..%s is %q, %v; want %q", c.from, c.to, got, ok, c.want)
		}
	}
}

func TestParse_Samples(t *testing.T) {
	for _, c := range []struct {
		file                string
		seats, events, most int
		hold, checkout      time.Duration
	}{
		{"cinema", 300, 2, 8, 10 * time.Minute, 8 * time.Minute},
		{"arena", 50_000, 1, 4, 5 * time.Minute, 4 * time.Minute},
	} {
		text, err := os.ReadFile("../../configs/" + c.file + "-seed.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := parsed(t, string(text))
		if got := len(p.Halls[0].Seats); got != c.seats {
			t.Errorf("%s: %d seats, want %d", c.file, got, c.seats)
		}
		e := p.Events[0]
		if len(p.Events) != c.events || e.MaxSeats != c.most || e.HoldTTL != c.hold || e.CheckoutTTL != c.checkout {
			t.Errorf("%s: %d events; %+v", c.file, len(p.Events), e.Event)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("halls: &h [*h]\nevents: *h\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse([]byte(text))
		if (p == nil) == (err == nil) {
			t.Errorf("plan %v and error %v", p, err)
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
