package crowd

import (
	"math/rand/v2"
	"time"
)

// plan is what one visitor means to do. It follows from the seed and the visitor's index alone.
type plan struct {
	arrival time.Duration // after the start
	cheat   bool
	api     bool // an API client: no cookies, no page

	leaveAfter  int // leaves at its n-th poll; 0 = never
	vanishAfter int // falls silent at its n-th poll; 0 = never
	silence     time.Duration
	neverBack   bool
	reloadAfter int  // presses reload instead of its n-th poll; 0 = never
	tabs        bool // has the page open twice

	stay    time.Duration
	abandon bool // never ends its session
}

// newPlan draws the plan of visitor i. Each visitor has its own source, so that plans do not depend on the order
// in which visitors run.
func newPlan(cfg Config, i int, rng *rand.Rand) plan {
	p := plan{
		arrival: arrival(cfg.Arrive, rng),
		cheat:   isOneOf(i, cfg.CheatRatio),
		api:     rng.Float64() < cfg.APIRatio,
		tabs:    rng.Float64() < cfg.TabsRatio,
		abandon: rng.Float64() < cfg.AbandonRatio,
		stay:    time.Duration(rng.ExpFloat64() * float64(cfg.Stay)),
	}
	if rng.Float64() < cfg.ReloadRatio {
		p.reloadAfter = 1 + rng.IntN(3)
	}
	switch wish := rng.Float64(); {
	case wish < cfg.LeaveRatio:
		p.leaveAfter = 1 + rng.IntN(4)
	case wish < cfg.LeaveRatio+cfg.VanishRatio:
		p.vanishAfter = 1 + rng.IntN(3)
		p.silence = time.Duration(rng.ExpFloat64() * float64(cfg.VanishFor))
		p.neverBack = rng.IntN(5) == 0
	}
	return p
}

// arrival is when a visitor comes: a third come in the first tenth of the burst, the rest evenly over all of it.
func arrival(burst time.Duration, rng *rand.Rand) time.Duration {
	if rng.IntN(3) == 0 {
		burst /= 10
	}
	return time.Duration(rng.Float64() * float64(burst))
}

// isOneOf spreads ratio*n members evenly over any n, so that a small crowd too has its share, rounded down.
func isOneOf(i int, ratio float64) bool {
	return int(float64(i+1)*ratio) > int(float64(i)*ratio)
}

func newSource(seed uint64, i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) } //nolint:gosec // chance, not secrecy
