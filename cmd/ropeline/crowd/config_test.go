package crowd

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestConfig_FlagsStartWithTheDefaultsAndSetTheirFields(t *testing.T) {
	var cfg Config
	fs := pflag.NewFlagSet("crowd", pflag.ContinueOnError)
	cfg.AddFlags(fs)
	if cfg != Default() {
		t.Errorf("before parsing: %+v, want %+v", cfg, Default())
	}
	err := fs.Parse([]string{
		"--target=http://edge.test/show/", "--room=spring", "--visitors=7", "--arrive=3s", "--leave-ratio=0.2", "--vanish-ratio=0.3",
		"--cheat-ratio=0.4", "--stay=6s", "--requests=5", "--active-limit=9", "--duration=1m", "--seed=12", "--connections=8", "--json",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Target, want.Room, want.Visitors, want.Arrive = "http://edge.test/show/", "spring", 7, 3*time.Second
	want.LeaveRatio, want.VanishRatio, want.CheatRatio = 0.2, 0.3, 0.4
	want.Stay, want.Requests, want.ActiveLimit, want.Duration = 6*time.Second, 5, 9, time.Minute
	want.Seed, want.Connections, want.JSON = 12, 8, true
	if cfg != want {
		t.Errorf("got %+v, want %+v", cfg, want)
	}
}

func TestArrivals_StartHeavyAndStayWithinTheBurst(t *testing.T) {
	const n = 10_000
	early := 0
	rng := newSource(5, 0)
	for range n {
		at := arrival(10*time.Second, rng)
		if at < 0 || at >= 10*time.Second {
			t.Fatalf("arrival after %v, burst of 10s", at)
		}
		if at < time.Second {
			early++
		}
	}
	if early < n*35/100 || early > n*45/100 {
		t.Errorf("%d of %d in the first tenth, want about 40 in 100", early, n)
	}
}

func TestPlans_CheatsAreTheShareAskedFor(t *testing.T) {
	cfg := smallCrowd()
	cheats := 0
	for i := range cfg.Visitors {
		if newPlan(cfg, i, newSource(cfg.Seed, i)).cheat {
			cheats++
		}
	}
	if cheats != 20 {
		t.Errorf("%d cheats of %d, want 20", cheats, cfg.Visitors)
	}
}
