package crowd

import (
	"fmt"
	"io"
	"math"
	"time"
)

// Report is what became of a crowd. The fields of the second group are zero in a correct room.
type Report struct {
	Target   string  `json:"target"`
	Room     string  `json:"room"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"` // from the first arrival to the last departure
	Visitors int     `json:"visitors"`

	OutOfOrder          int `json:"outOfOrder"` // visitors overtaken by more than one batch
	PassedWithoutToken  int `json:"passedWithoutToken"`
	GotWorse            int `json:"gotWorse"`    // visitors whose number changed or who fell back
	ServedTwice         int `json:"servedTwice"` // places with two sessions, sessions in two hands
	Lost                int `json:"lost"`        // visitors whose place the edge no longer knew
	TurnedAwayWithToken int `json:"turnedAwayWithToken"`

	Joined              int `json:"joined"`   // got a place
	Admitted            int `json:"admitted"` // got an access token, those at once among them
	AdmittedAtOnce      int `json:"admittedAtOnce"`
	ActivePeak          int `json:"activePeak"`  // most sessions held at one instant, never overstated
	ActiveLimit         int `json:"activeLimit"` // 0 = not checked
	RefusedWithoutToken int `json:"refusedWithoutToken"`
	SessionsEnded       int `json:"sessionsEnded"` // by their visitors
	Left                int `json:"left"`          // left the line
	CameBack            int `json:"cameBack"`      // after a silence
	GaveUp              int `json:"gaveUp"`        // stopped coming by plan
	StillWaiting        int `json:"stillWaiting"`
	NotJoined           int `json:"notJoined"` // came, or were about to, and got no place: closed, unreachable, out of time

	Pages         int     `json:"pages"` // seen inside
	Polls         int64   `json:"polls"`
	Sales         *Sales  `json:"sales,omitempty"` // of a crowd that came to buy
	Poll          Latency `json:"poll"`
	Join          Latency `json:"join"`
	Page          Latency `json:"page"`
	PerSecond     float64 `json:"admissionsPerSecond"` // between the first and the last admission; 0 if there were fewer than two
	ToldToRetry   int     `json:"toldToRetry"`         // 429, 502, 503, 504
	NetworkErrors int     `json:"networkErrors"`
	Unexpected    int     `json:"unexpectedAnswers"`

	Examples []string `json:"examples,omitempty"` // a few cases of each broken promise
	Notes    []string `json:"notes,omitempty"`    // the first different remarks
}

// judge makes the report: every invariant is checked over what the visitors went through.
func (c *crowd) judge(visits []visit, took time.Duration) Report {
	r := Report{
		Target: c.cfg.Target, Room: c.room, Seed: c.cfg.Seed, Seconds: round(took.Seconds()), Visitors: len(visits),
		ActiveLimit: c.cfg.ActiveLimit, ActivePeak: activePeak(visits),
		PassedWithoutToken: int(c.tally.passed.Load()), RefusedWithoutToken: int(c.tally.refused.Load()),
		SessionsEnded: int(c.tally.ended.Load()), CameBack: int(c.tally.cameBack.Load()), Pages: int(c.tally.pages.Load()),
		Poll: c.pollTimes.sum(), Join: c.joins.sum(), Page: c.pageTimes.sum(), PerSecond: perSecond(visits),
		ToldToRetry: int(c.tally.notNow.Load()), NetworkErrors: int(c.tally.networkErrors.Load()),
		Unexpected: int(c.tally.unexpected.Load()), Notes: c.notes.list(),
	}
	r.Polls = r.Poll.Count
	if c.cfg.Buy {
		r.Sales = c.sales(time.Now())
		for _, e := range c.hands.doubles().examples {
			r.Examples = append(r.Examples, "double-sold: "+e)
		}
	}
	for _, v := range visits {
		r.count(v)
	}
	for _, check := range []struct {
		into *int
		name string
		finding
	}{
		{&r.OutOfOrder, "out of order", outOfOrder(visits, c.cfg.OrderTolerance)},
		{&r.GotWorse, "got worse", gotWorse(visits)},
		{&r.ServedTwice, "served twice", servedTwice(visits)},
		{&r.Lost, "lost", losses(visits)},
		{&r.TurnedAwayWithToken, "turned away with a token", turnedAway(visits)},
	} {
		*check.into = check.count
		for _, e := range check.examples {
			r.Examples = append(r.Examples, check.name+": "+e)
		}
	}
	return r
}

// count adds v to the outcomes.
func (r *Report) count(v visit) {
	if v.joined {
		r.Joined++
	}
	for _, s := range v.sessions[:min(1, len(v.sessions))] {
		r.Admitted++
		if s.atOnce {
			r.AdmittedAtOnce++
		}
	}
	switch v.outcome {
	case left:
		r.Left++
	case gaveUp:
		r.GaveUp++
	case stillWaiting:
		r.StillWaiting++
	case notJoined:
		r.NotJoined++
	}
}

// perSecond is the pace of admissions as the visitors saw it.
func perSecond(visits []visit) float64 {
	var first, last time.Time
	n := 0
	for _, v := range visits {
		for _, s := range v.sessions {
			n++
			if first.IsZero() || s.received.Before(first) {
				first = s.received
			}
			if s.received.After(last) {
				last = s.received
			}
		}
	}
	if n < 2 || !last.After(first) {
		return 0
	}
	return round(float64(n-1) / last.Sub(first).Seconds())
}

// round keeps two decimals.
func round(x float64) float64 { return math.Round(x*100) / 100 }

// Broken names every promise that did not hold, empty if all did.
func (r Report) Broken() []string {
	var broken []string
	add := func(n int, format string) {
		if n > 0 {
			broken = append(broken, fmt.Sprintf(format, n))
		}
	}
	add(r.OutOfOrder, "out of order: %d")
	add(r.PassedWithoutToken, "passed without a token: %d")
	add(r.GotWorse, "got worse: %d")
	add(r.ServedTwice, "served twice: %d")
	add(r.Lost, "lost: %d")
	add(r.TurnedAwayWithToken, "turned away with a token: %d")
	if r.ActiveLimit > 0 && r.ActivePeak > r.ActiveLimit {
		broken = append(broken, fmt.Sprintf("active peak: %d is above the active limit of %d", r.ActivePeak, r.ActiveLimit))
	}
	if r.Sales != nil {
		broken = append(broken, r.Sales.broken()...)
	}
	return broken
}

// WriteText writes the report as lines of "key: value", each key flush left so that a line can be matched whole,
// followed by cases of what broke and by remarks.
func (r Report) WriteText(w io.Writer) error {
	p := printer{w: w}
	p.line("visitors", r.Visitors)
	p.line("joined", r.Joined)
	p.line("admitted", r.Admitted)
	p.line("admitted at once", r.AdmittedAtOnce)
	p.line("admissions per second", r.PerSecond)
	p.line("active peak", r.ActivePeak)
	if r.ActiveLimit > 0 {
		p.line("active limit", r.ActiveLimit)
	}
	p.line("left", r.Left)
	p.line("came back", r.CameBack)
	p.line("gave up", r.GaveUp)
	p.line("still waiting", r.StillWaiting)
	p.line("not joined", r.NotJoined)
	p.line("sessions ended", r.SessionsEnded)
	p.line("pages", r.Pages)
	p.line("out of order", r.OutOfOrder)
	p.line("got worse", r.GotWorse)
	p.line("served twice", r.ServedTwice)
	p.line("lost", r.Lost)
	p.line("turned away with a token", r.TurnedAwayWithToken)
	p.line("passed without a token", r.PassedWithoutToken)
	p.line("refused without a token", r.RefusedWithoutToken)
	if r.Sales != nil {
		r.Sales.write(&p)
	}
	p.line("polls", r.Polls)
	p.latency("poll", r.Poll)
	p.latency("join", r.Join)
	p.latency("page", r.Page)
	p.line("told to retry", r.ToldToRetry)
	p.line("network errors", r.NetworkErrors)
	p.line("unexpected answers", r.Unexpected)
	p.line("took", fmt.Sprintf("%.1fs", r.Seconds))
	p.line("seed", r.Seed)
	for _, e := range r.Examples {
		p.line("example", e)
	}
	for _, n := range r.Notes {
		p.line("note", n)
	}
	return p.err
}

// printer writes lines until one fails.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(key string, value any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, "%s: %v\n", key, value)
	}
}

func (p *printer) latency(name string, l Latency) {
	p.line(name+" p50", fmt.Sprintf("%.1fms", l.P50))
	p.line(name+" p99", fmt.Sprintf("%.1fms", l.P99))
	p.line(name+" max", fmt.Sprintf("%.1fms", l.Max))
}
