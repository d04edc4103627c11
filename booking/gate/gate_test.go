package gate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// events of the tests of this binary, which share their servers.
var events atomic.Int64

func newEvent() int64 { return events.Add(1) }

// patient waits long enough for a busy machine.
var patient = Config{Timeout: 20 * time.Second}

// marks are the keys of an event with what they hold.
func marks(t testing.TB, rdb redis.UniversalClient, event int64, seats ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, seat := range seats {
		hold, err := rdb.Get(t.Context(), fmt.Sprintf("seat:{%d}:%s", event, seat)).Result()
		if err == nil {
			out[seat] = hold
		} else if err != redis.Nil {
			t.Fatal(err)
		}
	}
	return out
}

func take(t testing.TB, g *Gate, event int64, hold string, seats ...string) []string {
	t.Helper()
	taken, err := g.Take(t.Context(), event, seats, hold, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestGate_TakesAllSeatsOrNone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event, other := New(rdb, patient), newEvent(), newEvent()
		want(t, "first", take(t, g, event, "a", "F5", "F6"), []string(nil))
		want(t, "seats that a has", take(t, g, event, "b", "F7", "F6", "F5"), []string{"F6", "F5"})
		want(t, "marks", marks(t, rdb, event, "F5", "F6", "F7"), map[string]string{"F5": "a", "F6": "a"})
		want(t, "another event", take(t, g, other, "b", "F5", "F6"), []string(nil))
		want(t, "again for its own hold", take(t, g, event, "a", "F6", "F7"), []string(nil))
		want(t, "no seats", take(t, g, event, "a"), []string(nil))
	})
}

func TestGate_AMarkLivesAsLongAsItsHoldAndNoLonger(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		left := func(seat string) time.Duration {
			return rdb.PTTL(t.Context(), fmt.Sprintf("seat:{%d}:%s", event, seat)).Val()
		}
		within := func(what string, got, most time.Duration) {
			t.Helper()
			if got <= most-time.Hour || got > most {
				t.Errorf("%s: lives %v, want at most %v and nearly that", what, got, most)
			}
		}
		take(t, g, event, "a", "F5", "F6")
		within("taken", left("F5"), time.Hour)
		if err := g.Keep(t.Context(), event, []string{"F5", "F6"}, "b", 9*time.Hour); err != nil {
			t.Fatal(err)
		}
		within("kept by another hold", left("F5"), time.Hour)
		if err := g.Keep(t.Context(), event, []string{"F5", "F7"}, "a", 9*time.Hour); err != nil {
			t.Fatal(err)
		}
		within("kept", left("F5"), 9*time.Hour)
		within("not kept", left("F6"), time.Hour)
		want(t, "marks", marks(t, rdb, event, "F5", "F6", "F7"), map[string]string{"F5": "a", "F6": "a"})
	})
}

func TestGate_AHoldWithNoTimeLeftMarksForAMoment(t *testing.T) {
	g := New(redistest.Embedded(t), patient)
	for _, ttl := range []time.Duration{-time.Second, 0, time.Microsecond} {
		if taken, err := g.Take(t.Context(), newEvent(), []string{"F5"}, "a", ttl); taken != nil || err != nil {
			t.Errorf("ttl %v: got %v, %v; want nil, nil", ttl, taken, err)
		}
	}
}

func TestGate_OnlyItsOwnerRemovesAMark(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		take(t, g, event, "a", "F5", "F6")
		take(t, g, event, "b", "F7")
		if err := g.Drop(t.Context(), event, []string{"F5", "F7"}, "a"); err != nil {
			t.Fatal(err)
		}
		want(t, "marks", marks(t, rdb, event, "F5", "F6", "F7"), map[string]string{"F6": "a", "F7": "b"})
	})
}

func TestGate_ACancelledCallerStillDrops(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		take(t, g, event, "a", "F5")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Drop(gone, event, []string{"F5"}, "a"); err != nil {
			t.Fatal(err)
		}
		want(t, "marks", marks(t, rdb, event, "F5"), map[string]string{})
	})
}

func TestGate_ASoldSeatStaysTheHoldsAndIsFreedByARefund(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event, seats := New(rdb, patient), newEvent(), []string{"F5", "F6", "F7"}
		take(t, g, event, "a", "F5") // the mark of F6 is lost
		take(t, g, event, "b", "F7")
		if err := g.Sold(t.Context(), event, seats, "a", 100*time.Hour); err != nil {
			t.Fatal(err)
		}
		want(t, "marks", marks(t, rdb, event, seats...), map[string]string{"F5": "a", "F6": "a", "F7": "b"})
		if left := rdb.PTTL(t.Context(), fmt.Sprintf("seat:{%d}:F5", event)).Val(); left < 99*time.Hour {
			t.Errorf("the mark of a sold seat lives %v, want 100h", left)
		}
		want(t, "sold to another", take(t, g, event, "c", "F5", "F6"), []string{"F5", "F6"})
		if err := g.Drop(t.Context(), event, []string{"F5", "F6"}, "a"); err != nil {
			t.Fatal(err)
		}
		want(t, "after the refund", take(t, g, event, "c", "F5", "F6"), []string(nil))
	})
}

func TestGate_ASwapKeepsTheSeatsThatBothHoldsHave(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		take(t, g, event, "a", "F5", "F6")
		take(t, g, event, "b", "F8")
		swap := func(hold string, seats ...string) []string {
			taken, err := g.Swap(t.Context(), event, seats, hold, "a", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return taken
		}
		want(t, "a seat of b's", swap("c", "F6", "F8"), []string{"F8"})
		want(t, "refused", marks(t, rdb, event, "F5", "F6", "F8"), map[string]string{"F5": "a", "F6": "a", "F8": "b"})
		want(t, "overlapping", swap("c", "F6", "F7"), []string(nil))
		if err := g.Drop(t.Context(), event, []string{"F5", "F6"}, "a"); err != nil {
			t.Fatal(err)
		}
		want(t, "swapped", marks(t, rdb, event, "F5", "F6", "F7"), map[string]string{"F6": "c", "F7": "c"})
	})
}

func TestGate_OfFiftyRacersForASeatOneIsLetPass(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		var passed atomic.Int64
		var racers sync.WaitGroup
		for i := range 50 {
			racers.Go(func() {
				taken, err := g.Take(t.Context(), event, []string{"F5", fmt.Sprintf("G%d", i)}, fmt.Sprint("hold", i), time.Hour)
				if err != nil {
					t.Error(err)
				} else if taken == nil {
					passed.Add(1)
				}
			})
		}
		racers.Wait()
		if passed.Load() != 1 {
			t.Errorf("%d let pass, want 1", passed.Load())
		}
	})
}

// TestGate_RacersLeaveNoMarksOfARefusedHold: overlapping sets in any order; who is refused leaves nothing.
func TestGate_RacersLeaveNoMarksOfARefusedHold(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g, event := New(rdb, patient), newEvent()
		all := make([]string, 30)
		for i := range all {
			all[i] = fmt.Sprint("R", i)
		}
		var mu sync.Mutex
		expected := map[string]string{}
		var racers sync.WaitGroup
		for i := range 60 {
			racers.Go(func() {
				hold := fmt.Sprint("hold", i)
				var seats []string
				for _, at := range rand.Perm(len(all))[:4] {
					seats = append(seats, all[at])
				}
				taken, err := g.Take(t.Context(), event, seats, hold, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if taken != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, seat := range seats {
					if expected[seat] != "" {
						t.Errorf("%s was given to %s and to %s", seat, expected[seat], hold)
					}
					expected[seat] = hold
				}
			})
		}
		racers.Wait()
		want(t, "marks", marks(t, rdb, event, all...), expected)
	})
}

func TestGate_KeysHaveTheirPrefixAndNobodysName(t *testing.T) {
	rdb := redistest.Embedded(t)
	g := New(rdb, Config{Timeout: patient.Timeout, Prefix: "rope:"})
	take(t, g, 42, "a", "F5")
	if _, ok := g.Allow(t.Context(), 42, "an@example.com", 5); !ok {
		t.Fatal("the first try was refused")
	}
	keys := rdb.Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	want(t, "keys", keys, []string{"rope:holds:{42}:" + digest("an@example.com"), "rope:seat:{42}:F5"})
	if strings.Contains(strings.Join(keys, " "), "example") {
		t.Errorf("a key names the customer: %v", keys)
	}
}
