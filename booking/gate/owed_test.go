package gate

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// TestGate_MarksThatCouldNotBeDroppedRefuseNobodyAfterwards: a is told of Redis's silence, its marks are set all the same
// when Redis wakes, and by then a has given up.
func TestGate_MarksThatCouldNotBeDroppedRefuseNobodyAfterwards(t *testing.T) {
	server, now := redistest.Private(t), newClock()
	rdb := server.Client()
	defer rdb.Close()
	g := New(rdb, Config{Timeout: 2 * time.Second, Now: now.Now})
	take(t, g, 1, "warm", "A1", "A2")
	server.Pause()
	g.cfg.Timeout = 50 * time.Millisecond
	if _, err := g.Take(t.Context(), 1, []string{"F5"}, "a", time.Hour); !errors.Is(err, ErrAway) {
		t.Fatalf("got %v, want ErrAway", err)
	}
	for _, drop := range []struct{ hold, seat string }{{"a", "F5"}, {"warm", "A1"}} {
		if err := g.Drop(t.Context(), 1, []string{drop.seat}, drop.hold); !errors.Is(err, ErrAway) {
			t.Fatalf("drop: got %v, want ErrAway", err)
		}
	}
	server.Resume()
	g.cfg.Timeout = 20 * time.Second
	now.add(time.Second)
	want(t, "seats that nobody holds any more", take(t, g, 1, "b", "F5", "A1"), []string(nil))
	want(t, "marks", marks(t, rdb, 1, "F5", "A1", "A2"), map[string]string{"F5": "b", "A1": "b", "A2": "warm"})
	if n := g.owed.size(); n != 0 {
		t.Errorf("%d removals are still owed, want none", n)
	}
}

func TestGate_DropsThatRedisRefusesAreTriedASecondApartAndThenForgotten(t *testing.T) {
	rdb, now := redistest.Embedded(t), newClock()
	g := New(rdb, Config{Timeout: patient.Timeout, Now: now.Now})
	if err := rdb.LPush(t.Context(), "seat:{1}:F5", "no mark").Err(); err != nil {
		t.Fatal(err)
	}
	err := g.Drop(t.Context(), 1, []string{"F5"}, "a")
	if err == nil || errors.Is(err, ErrAway) {
		t.Fatalf("got %v, want what Redis said", err)
	}
	for i := range maxTries {
		if n := g.owed.size(); n != 1 {
			t.Fatalf("after %d tries %d removals owed, want 1", i, n)
		}
		take(t, g, 1, "b", "F6") // tries once
		take(t, g, 1, "b", "F6")
		now.add(pause)
	}
	if n := g.owed.size(); n != 0 {
		t.Errorf("%d removals owed in the end, want none", n)
	}
}

func TestGate_OwedDropsOfSeveralEventsAreMadeUpInOneRound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, first, second, other := New(rdb, patient), newEvent(), newEvent(), newEvent()
		for _, event := range []int64{first, second} {
			take(t, g, event, "a", "F5", "F6")
			take(t, g, event, "b", "F7")
		}
		for _, event := range []int64{first, second} {
			g.owed.add(debt{keys: g.seatKeys(event, []string{"F5", "F7"}), hold: "a"})
		}
		take(t, g, other, "c", "F5")
		for _, event := range []int64{first, second} {
			want(t, "marks", marks(t, rdb, event, "F5", "F6", "F7"), map[string]string{"F6": "a", "F7": "b"})
		}
		if n := g.owed.size(); n != 0 {
			t.Errorf("%d removals are still owed, want none", n)
		}
	})
}

func TestGate_RemembersABoundedNumberOfDrops(t *testing.T) {
	var l ledger
	for i := range maxOwed + 10 {
		l.add(debt{hold: fmt.Sprint(i)})
	}
	if l.size() != maxOwed || l.debts[0].hold != "10" {
		t.Errorf("%d removals owed, the first %s's; want %d, from 10's on", l.size(), l.debts[0].hold, maxOwed)
	}
	if n := len(l.due(time.Now())); n != perRound {
		t.Errorf("%d due in one round, want %d", n, perRound)
	}
}
