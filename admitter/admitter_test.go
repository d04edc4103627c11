package admitter

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"ropeline/queue"
)

func TestAdmitter_AdmitsInOrderOverTicks(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(120)
		r.change(func(s *Settings) { s.Rate = 60 }) // the first tick takes 60, the others come by and by
		s := &spy{Line: r.line}
		run(t, r.admitter(s, Config{}))
		eventually(t, "everybody is admitted", func() bool { return len(s.order()) >= len(places) })
		sameOrder(t, s.order(), ids(places))
		if n := len(r.active()); n != len(places) {
			t.Errorf("%d active, want %d", n, len(places))
		}
	})
}

func TestAdmitter_FillsUpToTheActiveLimitAndNoFurther(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(30)
		r.change(func(s *Settings) { s.Limit = 12 })
		s := &spy{Line: r.line}
		a := r.admitter(s, Config{Chunk: 5})
		for range 5 {
			turn(t, a)
		}
		sameOrder(t, s.order(), ids(places[:12]))
		if _, err := r.line.Ask(t.Context(), places[3]); err != nil { // claims
			t.Fatal(err)
		}
		if ended, err := r.line.Leave(t.Context(), places[3], time.Time{}); err != nil || !ended {
			t.Fatalf("Leave = %v, %v", ended, err)
		}
		turn(t, a)
		sameOrder(t, s.order(), ids(places[:13]))
		r.change(func(s *Settings) { s.Limit = 5 }) // throws nobody out
		turn(t, a)
		if got := len(r.active()); got != 12 || len(s.order()) != 13 {
			t.Errorf("%d active and %d admitted in all after the limit was lowered, want 12 and 13", got, len(s.order()))
		}
	})
}

func TestAdmitter_AnotherLeadsAtOnceWhenTheLeaderResigns(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(40)
		r.change(func(s *Settings) { s.Rate, s.Limit = 1000, 20 })
		s := &spy{Line: r.line} // of both: only one of them may use it
		metrics := NewMetrics(nil)
		all := map[string]*Admitter{}
		stops := map[string]func(){}
		for range 2 {
			a := r.admitter(s, Config{Metrics: metrics})
			all[a.holder], stops[a.holder] = a, run(t, a)
		}
		eventually(t, "the first 20 are in", func() bool { return len(s.order()) == 20 })
		first := r.leader()
		if all[first] == nil {
			t.Fatalf("%q leads, want one of the two", first)
		}
		stops[first]()
		if now := r.leader(); now == first {
			t.Error("the leader has stopped and still holds the lease")
		}
		r.change(func(s *Settings) { s.Limit = 40 })
		eventually(t, "the rest is in", func() bool { return len(s.order()) == 40 })
		sameOrder(t, s.order(), ids(places))
		if now := r.leader(); now == first || all[now] == nil {
			t.Errorf("%q leads, want the other one", now)
		}
	})
}

func TestAdmitter_AnotherLeadsWhenTheLeaseHasRunOut(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(20)
		r.change(func(s *Settings) { s.Limit = 10 })
		s := &spy{Line: r.line}
		dead := r.admitter(s, Config{Lease: time.Second})
		eventually(t, "10 are in", func() bool { turn(t, dead); return len(s.order()) == 10 })
		old := dead.term.fence // it leads, and is not heard of again
		r.change(func(s *Settings) { s.Limit = 20 })
		next := r.admitter(s, Config{Lease: time.Second})
		run(t, next)
		eventually(t, "the next leader admits the rest", func() bool { return len(s.order()) == 20 })
		sameOrder(t, s.order(), ids(places))
		if fence, _ := strconv.ParseInt(r.rdb.Get(t.Context(), r.key("fence")).Val(), 10, 64); fence <= old {
			t.Errorf("fence %d, want above the %d of the tenure before", fence, old)
		}
		turn(t, dead) // it wakes up
		if dead.term.fence != 0 || r.leader() != next.holder {
			t.Errorf("the one that woke up has term %d, %q leads; want it to follow", dead.term.fence, r.leader())
		}
	})
}

func TestAdmitter_LeaderWhoseLeaseHasPassedAdmitsNobodyAndNotices(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(10)
		metrics := NewMetrics(prometheus.NewRegistry())
		s := &spy{Line: r.line}
		stale, other := r.admitter(s, Config{Metrics: metrics}), r.admitter(r.line, Config{})
		s.beforeAdmit = func() { // picked and signed, and then the process is paused for longer than its lease
			if err := r.rdb.Del(t.Context(), r.key("lease")).Err(); err != nil {
				t.Error(err)
			}
			if err := other.lead(t.Context()); err != nil || other.term.fence <= stale.term.fence {
				t.Errorf("the other has term %d, %v; want above %d", other.term.fence, err, stale.term.fence)
			}
		}
		turn(t, stale)
		if n := len(r.active()); n != 0 {
			t.Errorf("%d admitted by a leader whose lease had passed to another", n)
		}
		sameOrder(t, r.waiting(), ids(places))
		if got := testutil.ToFloat64(metrics.leader.WithLabelValues(r.line.Room())); stale.term.fence != 0 || got != 0 {
			t.Errorf("it still has term %d, and the metric says %v; want it to know", stale.term.fence, got)
		}
		s.beforeAdmit = nil
		turn(t, stale)
		if stale.term.fence != 0 || len(r.active()) != 0 {
			t.Error("it leads again while the other holds the lease")
		}
		turn(t, other)
		if got := len(r.active()); got != 10 {
			t.Errorf("%d admitted by the new leader, want 10", got)
		}
	})
}

func TestAdmitter_AbsentPlacesCostNeitherTimeNorCapacity(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		gone := r.joinAndGo(25)
		here := r.join(4)
		gone = append(gone, r.joinAndGo(3)...)
		here = append(here, r.join(10)...)
		behind := r.joinAndGo(2)
		r.change(func(s *Settings) { s.Rate = 8 })
		metrics := NewMetrics(nil)
		s := &spy{Line: r.line}
		eventually(t, "the present ones are known", func() bool {
			heads, err := r.line.Candidates(t.Context(), 0, 100, r.line.Now())
			if err != nil {
				t.Fatal(err)
			}
			present := 0
			for _, h := range heads {
				if h.Present {
					present++
				}
			}
			return present == len(here)
		})
		a := r.admitter(s, Config{Chunk: 10, Interval: time.Minute, Metrics: metrics}) // several commits for one tick
		turn(t, a)
		sameOrder(t, s.order(), ids(here[:8]))
		sameOrder(t, r.waiting(), append(ids(here[8:]), ids(behind)...))
		if got := testutil.ToFloat64(metrics.skipped.WithLabelValues(r.line.Room())); got != float64(len(gone)) {
			t.Errorf("%v counted as passed over, want %d", got, len(gone))
		}
		// Whoever is back is served next, before anybody who came later.
		back, err := r.line.Ask(t.Context(), gone[7])
		if err != nil || back.Grant != nil || back.Ahead != 0 {
			t.Fatalf("back in line: %+v, %v; want to be next", back, err)
		}
		r.change(func(s *Settings) { s.Rate = 1000 })
		r.rdb.Del(t.Context(), r.key("pace"))
		turn(t, a)
		sameOrder(t, s.order()[8:], append([]string{gone[7].ID}, ids(here[8:])...))
	})
}

func TestAdmitter_WaitsWhereTheOrganizerSaysSo(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Settings)
	}{
		{"rate 0", func(s *Settings) { s.Rate = 0 }},
		{"paused", func(s *Settings) { s.Mode = queue.Paused }},
		{"closed", func(s *Settings) { s.Mode = queue.Closed }},
		{"full", func(s *Settings) { s.Mode = queue.Full }},
		{"before the opening", func(s *Settings) { s.OpensAt = time.Now().Add(time.Hour) }},
	}
	each(t, func(t *testing.T, r *room) {
		gone := r.joinAndGo(3)
		places := append(gone, r.join(10)...)
		s := &spy{Line: r.line}
		a := r.admitter(s, Config{})
		for _, test := range tests {
			before := r.settings()
			r.change(test.change)
			for range 2 {
				turn(t, a)
			}
			if len(s.order()) != 0 {
				t.Fatalf("%s: %d admitted", test.name, len(s.order()))
			}
			sameOrder(t, r.waiting(), ids(places))
			if snap := r.line.Snapshot(); snap == nil {
				eventually(t, "nodes learn of the room all the same", func() bool { return r.line.Snapshot() != nil })
			}
			r.change(func(now *Settings) { *now = before })
		}
		eventually(t, "it goes on where it was", func() bool { turn(t, a); return len(s.order()) == 10 })
		sameOrder(t, s.order(), ids(places[3:]))
	})
}

func TestAdmitter_FollowsARaisedRate(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(300)
		r.change(func(s *Settings) { s.Rate = 10 })
		s := &spy{Line: r.line}
		run(t, r.admitter(s, Config{}))
		eventually(t, "the first second's worth is in", func() bool { return len(s.order()) >= 10 })
		r.change(func(s *Settings) { s.Rate = 200 })
		began, from := time.Now(), len(s.order())
		eventually(t, "100 more are in", func() bool { return len(s.order()) >= from+100 })
		if took := time.Since(began); took > 5*time.Second { // at 10/s it takes 10 s
			t.Errorf("100 more took %v at 200/s", took)
		}
		sameOrder(t, s.order(), ids(places[:len(s.order())]))
		eventually(t, "nodes and visitors know of it", func() bool {
			snap := r.line.Snapshot()
			return snap != nil && snap.Rate == 200 && snap.Speed > 15
		})
	})
}

func TestAdmitter_UnknownOutcomeAdmitsOnceAndLosesNobody(t *testing.T) {
	tests := []struct {
		name string
		lose func(r *room, s *spy) // lets the first commit fail
		want int                   // admitted by it
	}{
		{"the commit was not made", func(_ *room, s *spy) {
			real := s.Line
			s.Line = &failing{Line: real, fail: func() Line { s.Line = real; return nil }}
		}, 0},
		{"it was made, and the line says that Redis is away", func(_ *room, s *spy) {
			s.afterAdmit = func([]string, error) ([]string, error) {
				s.afterAdmit = nil
				return nil, queue.ErrAway
			}
		}, 20},
		{"it was made, and the answer got lost on the way", func(r *room, s *spy) {
			hook := &lostAnswer{}
			r.rdb.AddHook(hook)
			s.beforeAdmit = func() { s.beforeAdmit = nil; hook.lose.Store(true) }
		}, 20},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(t *testing.T, r *room) {
				places := r.join(50)
				r.change(func(s *Settings) { s.Rate = 20 })
				s := &spy{Line: r.line}
				a := r.admitter(s, Config{})
				test.lose(r, s)
				if err := a.turn(t.Context()); err != nil && !errors.Is(err, queue.ErrAway) {
					t.Fatal(err)
				}
				if got := len(r.active()); got != test.want {
					t.Fatalf("%d active after it, want %d", got, test.want)
				}
				signed := map[string]string{}
				for _, p := range places[:test.want] {
					signed[p.ID] = r.rdb.Get(t.Context(), r.key("token:"+p.ID)).Val()
				}
				r.change(func(s *Settings) { s.Rate = 1000 })
				r.rdb.Del(t.Context(), r.key("pace"))
				for range 3 {
					turn(t, a)
				}
				sameOrder(t, s.order(), ids(places))
				if got, left := len(r.active()), len(r.waiting()); got != 50 || left != 0 {
					t.Errorf("%d active, %d waiting; want 50 and 0", got, left)
				}
				for id, before := range signed {
					if now := r.rdb.Get(t.Context(), r.key("token:"+id)).Val(); now != before || now == "" {
						t.Fatalf("place %s has another admission than before: %q, was %q", id, now, before)
					}
				}
			})
		})
	}
}

// failing is a line whose next commit does not come through.
type failing struct {
	Line
	fail func() Line
}

func (f *failing) Admit(context.Context, int64, string, time.Duration, []queue.Grant, []queue.Place) ([]string, error) {
	f.fail()
	return nil, queue.ErrAway
}

// lostAnswer is a network that loses the answer to one command after Redis has done what it says.
type lostAnswer struct{ lose atomic.Bool }

func (l *lostAnswer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lostAnswer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lostAnswer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && slices.Contains([]string{"evalsha", "eval"}, cmd.Name()) && len(cmd.Args()) > 40 && l.lose.CompareAndSwap(true, false) {
			err = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
			cmd.SetErr(err)
		}
		return err
	}
}

func TestAdmitter_TokenSaysWhatWasAdmitted(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(3)
		r.change(func(s *Settings) { s.Claim, s.Session = 20*time.Second, 40*time.Second })
		before := r.line.Now().Add(-time.Second)
		turn(t, r.admitter(r.line, Config{}))
		for _, p := range places {
			claimed, err := r.line.Ask(t.Context(), p)
			if err != nil || claimed.Grant == nil {
				t.Fatalf("Ask = %+v, %v; want an admission", claimed, err)
			}
			c, err := r.authority.Verify(r.line.Room(), claimed.Grant.Token)
			if err != nil {
				t.Fatal(err)
			}
			want := claims(r.line.Room(), *claimed.Grant)
			if c.Room != want.Room || c.Visitor != p.ID || c.ID != p.ID || c.Generation != p.Generation || c.Provisional ||
				!c.Issued.Equal(want.Issued) || !c.Expires.Equal(want.Expires) || !c.Started.Equal(want.Started) {
				t.Errorf("the token says %+v, want %+v", c, want)
			}
			if c.Number != p.Number || c.Expires.Sub(c.Issued) != time.Minute || c.Issued.Before(before) || c.Issued.After(r.line.Now()) {
				t.Errorf("number %d from %v to %v; want number %d, from now on, for the claim window and the session", c.Number, c.Issued, c.Expires, p.Number)
			}
		}
	})
}

func TestAdmitter_LeavesSigningToTheNodeWhereTheTokenNamesTheCustomer(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		places := r.join(2)
		r.change(func(s *Settings) { s.SignAtClaim = true })
		turn(t, r.admitter(r.line, Config{}))
		for _, p := range places {
			claimed, err := r.line.Ask(t.Context(), p)
			if err != nil || claimed.Grant == nil || claimed.Grant.Token != "" || !claimed.Grant.Expires.After(r.line.Now()) {
				t.Fatalf("Ask = %+v, %v; want an admission without a token", claimed, err)
			}
		}
	})
}

func TestAdmitter_TellsHowFastTheLineMoves(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		gone := r.joinAndGo(5)
		r.join(40)
		r.change(func(s *Settings) { s.Rate = 10 })
		clock := &clock{now: time.Now()}
		a := r.admitter(r.line, Config{Now: clock.Now, Lease: time.Hour})
		eventually(t, "a second's worth is in", func() bool { // presence is flushed by and by
			turn(t, a)
			return len(r.active()) >= 10
		})
		if s := a.speed.perSecond; s <= 0 {
			t.Fatalf("speed %v while the line moves", s)
		}
		if left := len(r.waiting()); left > 45-len(gone)-10 {
			t.Fatalf("%d wait", left)
		}
		a.speed = speed{perSecond: 10, rate: 10, at: clock.Now()}
		clock.pass(500 * time.Millisecond)
		r.rdb.HSet(t.Context(), r.key("pace"), "budget", "5", "at", r.line.Now().UnixMilli())
		turn(t, a)
		if s := a.speed.perSecond; math.Abs(s-10) > 0.3 { // five places in half a second
			t.Errorf("speed %v, want about 10 places a second", s)
		}
		eventually(t, "nodes know it", func() bool {
			snap := r.line.Snapshot()
			return snap != nil && snap.Speed == a.speed.perSecond
		})
	})
}

func TestAdmitter_RunGivesTheLeaseUp(t *testing.T) {
	each(t, func(t *testing.T, r *room) {
		registry := prometheus.NewRegistry()
		a := r.admitter(r.line, Config{Lease: time.Minute, Metrics: NewMetrics(registry)})
		stop := run(t, a)
		eventually(t, "it leads", func() bool { return r.leader() == a.holder })
		stop()
		if who := r.leader(); who != "" {
			t.Errorf("%q holds the lease after Run, want nobody", who)
		}
		if n, err := testutil.GatherAndCount(registry, "ropeline_admitter_leader"); err != nil || n != 0 {
			t.Errorf("%d leader gauges after Run, %v; want none", n, err)
		}
	})
}
