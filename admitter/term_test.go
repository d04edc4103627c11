package admitter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ropeline/admitter/token"
	"ropeline/queue"
)

// clock is a clock that stands still until it is told to move. Safe for concurrent use.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fakeLine is a line in memory: everybody is present, and only budget bounds what is admitted.
type fakeLine struct {
	room   string
	budget float64
	before func(ctx context.Context, call string) error // an error is returned in place of doing anything

	mu       sync.Mutex
	holder   string
	term     int64
	waiting  []queue.Place
	admitted []string
	calls    map[string]int
}

func newFakeLine(n int) *fakeLine {
	f := &fakeLine{room: "fake", budget: 1000, calls: map[string]int{}}
	for i := range n {
		f.waiting = append(f.waiting, queue.Place{ID: queue.NewID(), Generation: 1, Number: int64(i + 1)})
	}
	return f
}

func (f *fakeLine) begin(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls[call]++
	f.mu.Unlock()
	if f.before != nil {
		return f.before(ctx, call)
	}
	return nil
}

func (f *fakeLine) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *fakeLine) Room() string { return f.room }

func (f *fakeLine) Lead(ctx context.Context, holder string, _ time.Duration, seen int64) (int64, error) {
	if err := f.begin(ctx, "lead"); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.holder {
	case "":
		f.holder, f.term = holder, max(f.term, seen)+1
	case holder:
	default:
		return 0, nil
	}
	return f.term, nil
}

func (f *fakeLine) Resign(ctx context.Context, holder string) error {
	if err := f.begin(ctx, "resign"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == holder {
		f.holder = ""
	}
	return nil
}

func (f *fakeLine) Look(ctx context.Context, _ int64, _ queue.Settings) (queue.View, error) {
	if err := f.begin(ctx, "look"); err != nil {
		return queue.View{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return queue.View{Now: time.UnixMilli(1_800_000_000_000), Waiting: len(f.waiting), Budget: f.budget}, nil
}

func (f *fakeLine) Candidates(ctx context.Context, from, n int, _ time.Time) ([]queue.Candidate, error) {
	if err := f.begin(ctx, "candidates"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []queue.Candidate
	for _, p := range f.waiting[min(from, len(f.waiting)):min(from+n, len(f.waiting))] {
		list = append(list, queue.Candidate{Place: p, Present: true})
	}
	return list, nil
}

func (f *fakeLine) Admit(ctx context.Context, _ int64, _ string, _ time.Duration, grants []queue.Grant, _ []queue.Place) ([]string, error) {
	if err := f.begin(ctx, "admit"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var in []string
	for _, g := range grants {
		in = append(in, g.Place.ID)
	}
	f.waiting = slices.DeleteFunc(f.waiting, func(p queue.Place) bool { return slices.Contains(in, p.ID) })
	f.admitted = append(f.admitted, in...)
	return in, nil
}

func (f *fakeLine) Marks(ctx context.Context, _ int) ([]queue.Mark, error) {
	return nil, f.begin(ctx, "marks")
}

func (f *fakeLine) Publish(ctx context.Context, _ int64, _ queue.Snapshot) error {
	return f.begin(ctx, "publish")
}

// signer is a signer that takes its time.
type signer struct{ before func() }

func (s signer) Sign(token.Claims) (string, error) {
	if s.before != nil {
		s.before()
	}
	return "signed", nil
}

func openSettings() Settings {
	return Settings{Settings: queue.Settings{Mode: queue.Open, Rate: 1000, Limit: 1000, Claim: time.Minute, Session: time.Minute}}
}

func TestAdmitter_TermCountsFromBeforeTheLeaseWasAskedFor(t *testing.T) {
	c := &clock{now: time.Now()}
	line := newFakeLine(1)
	line.before = func(_ context.Context, call string) error {
		if call == "lead" {
			c.pass(time.Second) // the answer takes its time
		}
		return nil
	}
	asked := c.Now()
	a := New(line, signer{}, openSettings, Config{Lease: 3 * time.Second, Now: c.Now})
	if err := a.lead(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{time.Second, true}, {2699 * time.Millisecond, true}, {2701 * time.Millisecond, false}, {time.Hour, false}} {
		if got := a.term.live(asked.Add(test.after)); got != test.want {
			t.Errorf("%v after the lease of 3 s was asked for: live is %v, want %v", test.after, got, test.want)
		}
	}
}

// A leader that was slow or paused for longer than its lease admits nobody, wherever in its turn that was.
func TestAdmitter_PausedLeaderDoesNotCommit(t *testing.T) {
	for _, where := range []string{"nowhere", "lead", "look", "candidates", "sign"} {
		t.Run(where, func(t *testing.T) {
			c := &clock{now: time.Now()}
			line := newFakeLine(10)
			pause := func(at string) {
				if at == where {
					c.pass(3 * time.Second)
				}
			}
			line.before = func(_ context.Context, call string) error { pause(call); return nil }
			a := New(line, signer{func() { pause("sign") }}, openSettings, Config{Lease: 3 * time.Second, Now: c.Now})
			if err := a.turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := where == "nowhere"; (line.count("admit") > 0) != want {
				t.Fatalf("commits: %d", line.count("admit"))
			}
			if late := where == "lead" || where == "look"; late && line.count("candidates") > 0 {
				t.Error("it went on picking visitors after its lease was over")
			}
			where = "nowhere" // the next turn takes the lease anew
			if err := a.turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(line.admitted) != 10 {
				t.Errorf("%d admitted in the turn after it, want 10", len(line.admitted))
			}
		})
	}
}

func TestAdmitter_LosesItsTermWhenTheLeaseCannotBeRenewed(t *testing.T) {
	c := &clock{now: time.Now()}
	line := newFakeLine(10)
	line.budget = 1
	a := New(line, signer{}, openSettings, Config{Lease: 3 * time.Second, Now: c.Now})
	if err := a.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	line.before = func(_ context.Context, call string) error {
		if call == "lead" {
			return queue.ErrAway
		}
		return nil
	}
	c.pass(time.Second)
	if err := a.turn(t.Context()); !errors.Is(err, queue.ErrAway) {
		t.Errorf("turn = %v, want that Redis is away", err)
	}
	if a.term.fence == 0 {
		t.Error("one call that failed ended the tenure")
	}
	c.pass(2 * time.Second)
	if err := a.turn(t.Context()); !errors.Is(err, queue.ErrAway) || a.term.fence != 0 {
		t.Errorf("turn = %v, term %d; want the tenure to be over after the lease", err, a.term.fence)
	}
	if len(line.admitted) != 1 {
		t.Errorf("%d admitted, want the 1 of before", len(line.admitted))
	}
	a.speed.perSecond = 77 // of the tenure before
	line.before = nil
	if err := a.turn(t.Context()); err != nil || a.speed.perSecond != 1000 {
		t.Errorf("turn = %v, speed %v; want the new tenure to begin with the rate of 1000/s", err, a.speed.perSecond)
	}
}

func TestAdmitter_SignsNobodyItCannotSignFor(t *testing.T) {
	line := newFakeLine(5)
	broken := errors.New("no key")
	a := New(line, failingSigner{broken}, openSettings, Config{})
	if err := a.turn(t.Context()); !errors.Is(err, broken) || line.count("admit") != 0 {
		t.Errorf("turn = %v with %d commits, want the signer's error and none", err, line.count("admit"))
	}
}

type failingSigner struct{ err error }

func (f failingSigner) Sign(token.Claims) (string, error) { return "", f.err }

// start runs a in a bubble.
func start(ctx context.Context, t *testing.T, a *Admitter) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}()
	return done
}

func TestAdmitter_KeepsItsRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		line := newFakeLine(0)
		line.before = func(_ context.Context, call string) error {
			if call == "look" {
				time.Sleep(100 * time.Millisecond) // is not added to the interval
			}
			return nil
		}
		leader := start(ctx, t, New(line, signer{}, openSettings, Config{}))
		time.Sleep(time.Millisecond)
		follower := newFakeLine(0)
		follower.holder = "somebody else"
		other := start(ctx, t, New(follower, signer{}, openSettings, Config{}))
		time.Sleep(10 * time.Second)
		if n := line.count("publish"); n != 20 {
			t.Errorf("%d ticks in 10 s, want 20", n)
		}
		if n := follower.count("lead"); n < 10 || n > 21 || follower.count("look") != 0 {
			t.Errorf("asked for the lease %d times in 10 s while another leads, looked %d times; want one each 0.5 to 1 s, and none", n, follower.count("look"))
		}
		cancel()
		<-leader
		<-other
		if line.holder != "" || follower.count("resign") != 0 {
			t.Errorf("lease of %q, %d calls by the follower; want the leader alone to resign", line.holder, follower.count("resign"))
		}
	})
}

func TestAdmitter_FailingRoomDelaysNoOther(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, stuck := range []string{"lead", "look", "admit", "publish"} {
		t.Run(stuck, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				bad, good := newFakeLine(50), newFakeLine(50)
				good.budget, bad.budget = 1, 1
				bad.before = func(ctx context.Context, call string) error {
					if call != stuck && call != "resign" {
						return nil
					}
					<-ctx.Done() // an answer that never comes
					return context.Cause(ctx)
				}
				metrics := NewMetrics(nil)
				one := start(ctx, t, New(bad, signer{}, openSettings, Config{Metrics: metrics}))
				two := start(ctx, t, New(good, signer{}, openSettings, Config{Metrics: metrics}))
				time.Sleep(10*time.Second + time.Millisecond)
				if n := good.count("publish"); n != 21 || len(good.admitted) != 21 {
					t.Errorf("the other room had %d ticks and %d admissions in 10 s, want 21 and 21", n, len(good.admitted))
				}
				began := time.Now()
				cancel()
				<-one
				<-two
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("stopping took %v, want 2 s at most", took)
				}
			})
		})
	}
}

func TestAdmitter_GivesUpALeaseThatItMayHaveTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		line := newFakeLine(0)
		a := New(&lostLead{line}, signer{}, openSettings, Config{})
		done := start(ctx, t, a)
		time.Sleep(time.Second)
		cancel()
		<-done
		if line.holder != "" {
			t.Error("the first lease was taken, the answer came too late, and nobody gave it back")
		}
	})
}

// lostLead is a line that takes the lease and does not live to tell.
type lostLead struct{ *fakeLine }

func (l *lostLead) Lead(ctx context.Context, holder string, ttl time.Duration, seen int64) (int64, error) {
	if _, err := l.fakeLine.Lead(ctx, holder, ttl, seen); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, context.Cause(ctx)
}
