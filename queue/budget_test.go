package queue

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// passes makes Redis believe that the budget was last looked at that much earlier.
func passes(t *testing.T, rdb redis.UniversalClient, l *Line, d time.Duration) {
	t.Helper()
	at, err := strconv.ParseInt(rdb.HGet(t.Context(), l.k.pace, "at").Val(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(t.Context(), l.k.pace, "at", at-d.Milliseconds()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestBudget_SixAMinuteIsOneEachTenSeconds(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 8)
		d.set.Rate = 6.0 / 60
		if got := d.admit(8); len(got) != 1 || got[0] != places[0].ID {
			t.Fatalf("at the start %v admitted, want the first alone", got)
		}
		for i := 1; i < 5; i++ {
			passes(t, rdb, l, 5*time.Second)
			if got := d.admit(8); len(got) != 0 {
				t.Fatalf("5 s after place %d: %v admitted, want nobody", i, got)
			}
			passes(t, rdb, l, 5*time.Second)
			if got := d.admit(8); len(got) != 1 || got[0] != places[i].ID {
				t.Fatalf("10 s after place %d: %v admitted, want the next alone", i, got)
			}
		}
		passes(t, rdb, l, time.Hour)
		if got := d.admit(8); len(got) != 1 {
			t.Errorf("after an hour without a leader %d admitted, want 1", len(got))
		}
	})
}

func TestBudget_HoldsOneSecondsWorthAtMost(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, _ := waiting(t, rdb, 90)
		d.set.Rate = 20
		if got := d.admit(90); len(got) != 20 {
			t.Fatalf("%d admitted at the start, want 20", len(got))
		}
		passes(t, rdb, l, time.Hour) // Redis was away, or nobody led
		if v := d.look(); v.Budget != 20 {
			t.Errorf("budget %v after an hour, want 20", v.Budget)
		}
		if got := d.admit(90); len(got) != 20 {
			t.Errorf("%d admitted after an hour, want 20", len(got))
		}
		passes(t, rdb, l, 250*time.Millisecond)
		if v := d.look(); v.Budget < 5 || v.Budget > 20 {
			t.Errorf("budget %v a quarter of a second later, want 5 and what has passed since", v.Budget)
		}
		d.set.Rate = 2 // what was saved up at a higher rate is not spent at a lower one
		if v := d.look(); v.Budget != 2 {
			t.Errorf("budget %v at 2/s, want 2", v.Budget)
		}
	})
}

func TestBudget_NothingIsSavedUpWhileNobodyMayEnter(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		tests := []struct {
			name string
			stop func(*Settings)
		}{
			{"paused", func(s *Settings) { s.Mode = Paused }},
			{"closed", func(s *Settings) { s.Mode = Closed }},
			{"before the opening", func(s *Settings) { s.OpensAt = time.Now().Add(time.Hour) }},
			{"rate 0", func(s *Settings) { s.Rate = 0 }},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				l, d, _ := waiting(t, rdb, 20)
				d.set.Rate = 6.0 / 60 // so that what passes during the test does not count
				open := d.set
				test.stop(&d.set)
				for range 3 {
					if got := d.admit(20); len(got) != 0 {
						t.Fatalf("%v admitted", got)
					}
					passes(t, rdb, l, time.Minute)
				}
				d.look() // the leader's last tick before it opens
				d.set = open
				if v := d.look(); v.Budget >= 1 {
					t.Errorf("budget %v as it opens, want less than one", v.Budget)
				}
				if got := d.admit(20); len(got) != 0 {
					t.Errorf("%v admitted at once as it opens", got)
				}
				passes(t, rdb, l, 10*time.Second)
				if got := d.admit(20); len(got) != 1 {
					t.Errorf("%d admitted ten seconds later, want 1", len(got))
				}
			})
		}
	})
}

func TestBudget_StaysWhenTheLeaderChanges(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 10)
		d.set.Rate = 6.0 / 60
		first := d.admit(10)
		if err := l.Resign(t.Context(), "tester"); err != nil {
			t.Fatal(err)
		}
		next := lead(t, node(t, rdb, l.room, Config{}))
		next.set, next.n = d.set, 100
		if got := next.admit(10); len(first) != 1 || len(got) != 0 {
			t.Errorf("%v, and by the next leader at once %v; want %s and nobody", first, got, places[0].ID)
		}
	})
}
