package queue

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSnapshot_AheadIsExactAtMarksAndBoundedElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// A line from which people have left: scores ascend with gaps.
		n := rapid.IntRange(1, 3000).Draw(t, "waiting")
		scores := make([]int64, n)
		at := int64(5) << numberBits
		for i := range scores {
			at += int64(rapid.IntRange(1, 5).Draw(t, "gap"))
			scores[i] = at
		}
		s := Snapshot{Waiting: n}
		for i := range scores {
			if i < denseMarks || i == n-1 || (i-denseMarks)%max(1, (n-denseMarks)/sparseMarks) == 0 {
				s.Marks = append(s.Marks, Mark{Rank: i, Score: scores[i]})
			}
		}
		before := -1
		for i, score := range scores {
			got := s.Ahead(score)
			if i < denseMarks && got != i {
				t.Fatalf("rank %d of the head: got %d", i, got)
			}
			if off := got - i; off > n/100+8 || off < -n/100-8 {
				t.Fatalf("rank %d of %d: got %d", i, n, got)
			}
			if got < before {
				t.Fatalf("rank %d has %d ahead, the one before it %d", i, got, before)
			}
			before = got
		}
	})
}

func TestSnapshot_AheadWithoutMarksAndBehindThem(t *testing.T) {
	base := int64(7) << numberBits
	empty := Snapshot{Generation: 7, Serving: base + 10, Highest: 10}
	for number, want := range map[int64]int{3: 0, 11: 0, 12: 1, 20: 9} {
		if got := empty.Ahead(base + number); got != want {
			t.Errorf("number %d, of those who joined after the line was empty: %d ahead, want %d", number, got, want)
		}
	}
	s := Snapshot{Waiting: 2, Marks: []Mark{{0, base + 3}, {1, base + 8}}}
	for number, want := range map[int64]int{1: 0, 3: 0, 8: 1, 9: 2, 12: 5} {
		if got := s.Ahead(base + number); got != want {
			t.Errorf("number %d: %d ahead, want %d", number, got, want)
		}
	}
}

func TestPace_After(t *testing.T) {
	pace := Pace{Min: 2 * time.Second, Max: 15 * time.Second, Budget: 100}
	now := time.Date(2026, 12, 10, 3, 0, 0, 0, time.UTC)
	open := Snapshot{Mode: Open, Rate: 10, Waiting: 10}
	tests := []struct {
		name  string
		s     Snapshot
		ahead int
		want  time.Duration // at the middle of the jitter
	}{
		{"next in line", open, 0, 2 * time.Second},
		{"a wait of about 20 s", open, 200, 8040 * time.Millisecond},
		{"far back", open, 100_000, 15 * time.Second},
		{"stretched under the budget", Snapshot{Mode: Open, Rate: 10, Waiting: 6000}, 5000, 60 * time.Second},
		{"never above half of the low estimate", Snapshot{Mode: Open, Rate: 10, Waiting: 6000}, 499, 20 * time.Second},
		{"paused", Snapshot{Mode: Paused, Rate: 10, Waiting: 10}, 0, 15 * time.Second},
		{"long before the opening", Snapshot{Mode: Open, Rate: 10, OpensAt: now.Add(time.Hour).UnixMilli()}, 3, 15 * time.Second},
		{"just before the opening", Snapshot{Mode: Open, Rate: 10, OpensAt: now.Add(10 * time.Second).UnixMilli()}, 3, 5 * time.Second},
	}
	for _, test := range tests {
		got := pace.After(&test.s, test.ahead, now, 0.5)
		if diff := got - test.want; diff > 100*time.Millisecond || diff < -100*time.Millisecond {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		for _, chance := range []float64{0, 0.999} {
			if got := pace.After(&test.s, test.ahead, now, chance); got > test.want*12/10+time.Millisecond || got < test.want*79/100-100*time.Millisecond {
				t.Errorf("%s with chance %v: %v, more than 20 %% from %v", test.name, chance, got, test.want)
			}
		}
	}
}

func TestShown_NeverGrowsUnlessCountedAnew(t *testing.T) {
	s := shown{generation: 1}
	p := Place{Generation: 1, Number: 5000}
	for _, step := range []struct {
		ahead int
		exact bool
		want  int
	}{{100, false, 100}, {103, false, 100}, {40, false, 40}, {41, false, 40}, {90, true, 90}, {0, false, 0}} {
		if got := s.clamp(p, step.ahead, step.exact); got != step.want {
			t.Errorf("clamp(%d, %v) = %d, want %d", step.ahead, step.exact, got, step.want)
		}
	}
	if got := s.clamp(Place{Generation: 2, Number: 1}, 7, false); got != 7 {
		t.Errorf("a place of another generation: %d, want 7", got)
	}
}

func TestPresence_TakesEachMarkOnceAndForgetsWhatIsOver(t *testing.T) {
	var p presence
	now := time.UnixMilli(100 * windowMillis)
	place := Place{Generation: 1, Number: 70}
	p.mark(place, now, leastPatience)
	p.mark(place, now, leastPatience)
	first := p.take(now)
	if len(first) != 4 {
		t.Fatalf("windows %v, want the present one and the three that 90 s reach into", first)
	}
	for key, numbers := range first {
		if len(numbers) != 1 || numbers[0] != 70 {
			t.Errorf("window %v: %v, want number 70 once", key, numbers)
		}
	}
	if again := p.take(now); len(again) != 0 {
		t.Errorf("taken again: %v", again)
	}
	later := now.Add(windowMillis * time.Millisecond)
	p.mark(place, later, leastPatience)
	if got := p.take(later); len(got) != 1 || got[windowKey{1, 104}] == nil {
		t.Errorf("a window later: %v, want only the window that is new", got)
	}
	if len(p.windows) != 4 {
		t.Errorf("%d windows kept, want 4", len(p.windows))
	}
}
