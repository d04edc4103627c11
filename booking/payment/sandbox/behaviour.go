package sandbox

import "time"

// How a payment goes, as the member "how" of what is posted to a page says it.
type How string

// Ways to pay. The money is taken at once in each of them.
const (
	OK            How = "ok"             // one callback, at once
	Late          How = "late"           // one callback, after a while: 3 s if nothing else is said
	Twice         How = "twice"          // the same callback two times at once
	Never         How = "never"          // no callback; only who asks learns of it
	WrongAmount   How = "wrong_amount"   // not the amount that was asked for
	WrongCurrency How = "wrong_currency" // not the currency
	Reordered     How = "reordered"      // an attempt is declined, then one succeeds; the callbacks come the other way round
)

const (
	lateBy    = 3 * time.Second
	mostDelay = time.Hour
)

// Behaviour is what goes wrong with the shop's calls. A number counts down with each call that it spoils.
type Behaviour struct {
	Away        bool // every call is answered 503 and does nothing
	FailStarts  int  // this many pages are not opened: 500
	LoseStarts  int  // this many are opened and the answer is lost
	FailCloses  int  // this many pages are not closed: 500
	FailRefunds int  // this many refunds are not made: 500
	LoseRefunds int  // this many are made and the answer is lost
	SlowRefunds bool // refunds stay under way until [Server.Settle]
}

// fate is what happens to one call.
type fate int

const (
	works fate = iota
	fails
	loses
)

// next is the fate of a call and counts it.
func next(fail, lose *int) fate {
	switch {
	case *fail > 0:
		*fail--
		return fails
	case lose != nil && *lose > 0:
		*lose--
		return loses
	}
	return works
}
