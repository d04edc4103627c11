package crowd

import "math/rand/v2"

// wish is what a buyer means to do in the shop.
type wish struct {
	seats  int // 1 to 4
	swap   bool
	extend bool
	ending ending
}

// ending is how a buyer leaves the shop once it holds seats.
type ending int

const (
	pays          ending = iota // as most do
	declinedFirst               // the first card is declined, the second is good
	paysTwice                   // has two payment pages open and pays on both
	cancelsLater                // pays, and gives the seats back
	changesMind                 // gives the hold back
	walksAway                   // does nothing more: the hold expires
	endings       = iota        // how many there are
)

// ofWishes sets the seed of wishes apart from that of plans, which must be the same with and without --buy.
const ofWishes = 0x5eed

// chances are how many of a hundred buyers choose each ending.
var chances = [endings]int{pays: 68, declinedFirst: 10, paysTwice: 5, cancelsLater: 5, changesMind: 8, walksAway: 4}

// newWish draws the wish of visitor i.
func newWish(cfg Config, i int) wish {
	rng := newSource(cfg.Seed^ofWishes, i)
	return wish{seats: 1 + rng.IntN(4), swap: rng.IntN(10) == 0, extend: rng.IntN(10) == 0, ending: drawEnding(rng)}
}

func drawEnding(rng *rand.Rand) ending {
	n := rng.IntN(100)
	for e, c := range chances {
		if n -= c; n < 0 {
			return ending(e)
		}
	}
	return pays
}
