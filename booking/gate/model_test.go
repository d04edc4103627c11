package gate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"ropeline/internal/redisbox/redistest"
)

// TestGate_DoesAsAMapWould compares any series of calls with a map from seat to hold.
func TestGate_DoesAsAMapWould(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		g := New(rdb, patient)
		codes := []string{"A1", "A2", "A3", "A4"}
		rapid.Check(t, func(r *rapid.T) {
			event, model := newEvent(), map[string]string{}
			for range rapid.IntRange(1, 12).Draw(r, "calls") {
				seats := rapid.SliceOfNDistinct(rapid.SampledFrom(codes), 1, 3, rapid.ID[string]).Draw(r, "seats")
				hold := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(r, "hold")
				old := rapid.SampledFrom([]string{"", "x", "y"}).Draw(r, "old")
				var err error
				switch rapid.SampledFrom([]string{"swap", "keep", "drop", "sold"}).Draw(r, "call") {
				case "swap":
					var taken, expected []string
					for _, seat := range seats {
						if has := model[seat]; has != "" && has != hold && has != old {
							expected = append(expected, seat)
						}
					}
					taken, err = g.Swap(t.Context(), event, seats, hold, old, time.Hour)
					if !slices.Equal(taken, expected) {
						r.Fatalf("swap by %s for %q of %v: taken %v, want %v", hold, old, seats, taken, expected)
					}
					for _, seat := range seats {
						if expected == nil {
							model[seat] = hold
						}
					}
				case "keep":
					err = g.Keep(t.Context(), event, seats, hold, time.Hour)
				case "drop":
					err = g.Drop(t.Context(), event, seats, hold)
					for _, seat := range seats {
						if model[seat] == hold {
							delete(model, seat)
						}
					}
				case "sold":
					err = g.Sold(t.Context(), event, seats, hold, time.Hour)
					for _, seat := range seats {
						if model[seat] == "" {
							model[seat] = hold
						}
					}
				}
				if err != nil {
					r.Fatal(err)
				}
				if diff := cmp.Diff(model, marks(t, rdb, event, codes...)); diff != "" {
					r.Fatalf("marks (-want +got):\n%s", diff)
				}
			}
		})
	})
}
