package queue

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var roomCount atomic.Int64

// roomName is a name that no other test uses: the servers are shared.
func roomName() string { return fmt.Sprintf("room-%d-%d", time.Now().UnixNano(), roomCount.Add(1)) }

// node is a line that is open; nothing runs in the background, so a test decides when it refreshes and flushes.
func node(t *testing.T, rdb redis.UniversalClient, room string, cfg Config) *Line {
	t.Helper()
	cfg.Stale = time.Hour
	l := New(rdb, room, cfg)
	if err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// leader leads a room for tests: open, a high rate and limit, unless changed.
type leader struct {
	t    *testing.T
	line *Line
	term int64
	set  Settings
	n    int
}

func lead(t *testing.T, l *Line) *leader {
	t.Helper()
	term, err := l.Lead(t.Context(), "tester", time.Minute, 0)
	if err != nil || term == 0 {
		t.Fatalf("Lead = %d, %v", term, err)
	}
	return &leader{t: t, line: l, term: term, set: Settings{
		Mode: Open, Rate: 1000, Limit: 1000, Claim: time.Minute, Session: time.Minute,
	}}
}

func (d *leader) look() View {
	d.t.Helper()
	v, err := d.line.Look(d.t.Context(), d.term, d.set)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// admit runs a tick's commit for the first n present places and returns who was admitted.
func (d *leader) admit(n int) []string {
	d.t.Helper()
	v := d.look()
	heads, err := d.line.Candidates(d.t.Context(), 0, 10*n+100, v.Now)
	if err != nil {
		d.t.Fatal(err)
	}
	var grants []Grant
	var absent []Place
	for _, h := range heads {
		if len(grants) == n {
			break
		}
		if h.Present {
			grants = append(grants, d.grant(h.Place, v.Now))
		} else {
			absent = append(absent, h.Place)
		}
	}
	d.n++
	ids, err := d.line.Admit(d.t.Context(), d.term, fmt.Sprint("batch-", d.n), d.set.Claim, grants, absent)
	if err != nil {
		d.t.Fatal(err)
	}
	return ids
}

func (d *leader) grant(p Place, now time.Time) Grant {
	return Grant{Place: p, Issued: now, Started: now, Expires: now.Add(d.set.Claim + d.set.Session), Token: "signed-" + p.ID}
}

// publish writes the snapshot and has nodes read it.
func (d *leader) publish(nodes ...*Line) {
	d.t.Helper()
	v := d.look()
	marks, err := d.line.Marks(d.t.Context(), v.Waiting)
	if err != nil {
		d.t.Fatal(err)
	}
	opens := int64(0)
	if !d.set.OpensAt.IsZero() {
		opens = d.set.OpensAt.UnixMilli()
	}
	err = d.line.Publish(d.t.Context(), d.term, Snapshot{
		At: v.Now.UnixMilli(), Mode: d.set.Mode, Rate: d.set.Rate, Limit: d.set.Limit, OpensAt: opens,
		Active: v.Active, Waiting: v.Waiting, Serving: v.Serving, Highest: v.Highest, Marks: marks,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, l := range nodes {
		if err := l.refresh(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
}

func join(t *testing.T, l *Line, v Visitor) Turn {
	t.Helper()
	turn, err := l.Join(t.Context(), v)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return turn
}

func TestLine_ConcurrentJoinsGiveDenseNumbers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		room := roomName()
		nodes := []*Line{node(t, rdb, room, Config{}), node(t, rdb, room, Config{})}
		const visitors = 300
		turns := make([]Turn, visitors)
		var wg sync.WaitGroup
		for i := range visitors {
			wg.Go(func() {
				turn, err := nodes[i%2].Join(context.Background(), Visitor{})
				if err != nil {
					t.Error(err)
				}
				turns[i] = turn
			})
		}
		wg.Wait()
		sort.Slice(turns, func(i, j int) bool { return turns[i].Place.Number < turns[j].Place.Number })
		ids := map[string]bool{}
		for i, turn := range turns {
			if turn.Place.Number != int64(i+1) || turn.Grant != nil || turn.Ahead != i {
				t.Fatalf("place %d has number %d, %d ahead, grant %v; nobody leads, so all wait", i+1, turn.Place.Number, turn.Ahead, turn.Grant)
			}
			ids[turn.Place.ID] = true
		}
		if len(ids) != visitors {
			t.Errorf("%d ids for %d visitors", len(ids), visitors)
		}
	})
}

func TestLine_ReturningVisitorKeepsItsPlace(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		first := join(t, l, Visitor{})
		join(t, l, Visitor{})
		for range 3 {
			again := join(t, l, Visitor{Place: &first.Place})
			if again.Place.ID != first.Place.ID || again.Place.Number != 1 || again.Ahead != 0 {
				t.Fatalf("joined again: got %+v, want the first place %+v", again, first)
			}
		}
		if next := join(t, l, Visitor{}); next.Place.Number != 3 {
			t.Errorf("the next newcomer has number %d, want 3: coming back consumed numbers", next.Place.Number)
		}
	})
}

func TestLine_RepeatedBatchGivesNoPlaceTwice(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		d := lead(t, l)
		d.set.Limit = 2 // the first two enter at once, the others wait
		d.look()
		batch := []*visit{}
		for range 5 {
			batch = append(batch, newVisit(kindJoin, Visitor{}))
		}
		if _, err := l.sendOnce(t.Context(), batch, false); err != nil {
			t.Fatal(err)
		}
		first := make([]Turn, len(batch))
		for i, v := range batch {
			first[i] = v.turn
		}
		if _, err := l.sendOnce(t.Context(), batch, true); err != nil {
			t.Fatal(err)
		}
		for i, v := range batch {
			if v.err != nil || v.turn.Place.Number != int64(i+1) || (v.turn.Grant != nil) != (i < 2) {
				t.Errorf("visit %d asked again: %+v, %v; first answer %+v", i, v.turn, v.err, first[i])
			}
			if i < 2 && v.turn.Grant != nil && !v.turn.Grant.Expires.Equal(first[i].Grant.Expires) {
				t.Errorf("visit %d: another session end on the second answer", i)
			}
		}
		if got := d.look(); got.Waiting != 3 || got.Active != 2 || got.Highest != 5 {
			t.Errorf("after the same batch twice: %+v, want 3 waiting, 2 active, last number 5", got)
		}
	})
}

func TestLine_OtherGenerationWritesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		d := lead(t, l)
		p := join(t, l, Visitor{}).Place
		rdb.HSet(t.Context(), l.k.state, "gen", l.era.Load().generation+1)
		batch := []*visit{newVisit(kindJoin, Visitor{})}
		if _, err := l.sendOnce(t.Context(), batch, false); !errors.Is(err, ErrGeneration) {
			t.Errorf("join in an old generation: %v, want ErrGeneration", err)
		}
		if _, err := l.Admit(t.Context(), d.term, "b", time.Minute, []Grant{d.grant(p, l.Now())}, nil); !errors.Is(err, ErrGeneration) {
			t.Errorf("admit in an old generation: %v, want ErrGeneration", err)
		}
		if n := rdb.ZCard(t.Context(), l.k.line).Val(); n != 1 {
			t.Errorf("%d in line, want the 1 of before", n)
		}
		// A join goes on in the newer generation by itself, and an older place keeps standing before a newer one.
		newer := join(t, l, Visitor{})
		if newer.Place.Generation != p.Generation+1 || newer.Place.Number != 2 || newer.Place.Score() <= p.Score() {
			t.Errorf("after the change: %+v, want generation %d behind %+v", newer.Place, p.Generation+1, p)
		}
	})
}

func TestLine_GenerationIsAboveAnySeen(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		room := roomName()
		l := node(t, rdb, room, Config{})
		before := l.era.Load().generation
		if want := l.Now().Unix()/10 - generationEpoch; before < want-1 || before > want+1 {
			t.Errorf("generation %d, want about %d", before, want)
		}
		waiting := join(t, l, Visitor{}).Place
		rdb.Del(t.Context(), append([]string{l.k.used(before)}, l.k.stateToBatch...)...)
		if err := l.refreshOrOpen(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := l.era.Load().generation; after <= before {
			t.Errorf("after Redis lost the room: generation %d, want above %d", after, before)
		}
		join(t, l, Visitor{})
		back, err := l.Ask(t.Context(), waiting)
		if err != nil || back.Ahead != 0 || back.Place.Number != waiting.Number {
			t.Errorf("the older place is back as %+v, %v; want it in front", back, err)
		}
	})
}

func TestLine_AtOnceOnlyWhenNobodyWaitsAndThereIsRoom(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		tests := []struct {
			name   string
			change func(*Settings)
			crowd  int // who joined before
			want   bool
		}{
			{name: "room to spare", want: true},
			{name: "paused", change: func(s *Settings) { s.Mode = Paused }},
			{name: "before the opening", change: func(s *Settings) { s.OpensAt = time.Now().Add(time.Hour) }},
			{name: "opened a while ago", change: func(s *Settings) { s.OpensAt = time.Now().Add(-time.Hour) }, want: true},
			{name: "rate 0", change: func(s *Settings) { s.Rate = 0 }},
			{name: "limit reached", change: func(s *Settings) { s.Limit = 3 }, crowd: 3},
			{name: "budget spent", change: func(s *Settings) { s.Rate = 0.0001 }, crowd: 1},
			{name: "a slow rate has one to give", change: func(s *Settings) { s.Rate = 0.0001 }, want: true},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				l := node(t, rdb, roomName(), Config{})
				d := lead(t, l)
				if test.change != nil {
					test.change(&d.set)
				}
				d.look()
				for range test.crowd {
					join(t, l, Visitor{})
				}
				if got := join(t, l, Visitor{}); (got.Grant != nil) != test.want {
					t.Errorf("admitted at once: %v, want %v", got.Grant != nil, test.want)
				}
			})
		}
		t.Run("somebody waits", func(t *testing.T) {
			l := node(t, rdb, roomName(), Config{})
			join(t, l, Visitor{})
			lead(t, l).look()
			if got := join(t, l, Visitor{}); got.Grant != nil || got.Ahead != 1 {
				t.Errorf("got %+v, want a place behind the one who waits", got)
			}
			if _, err := l.Enter(t.Context(), Visitor{}); !errors.Is(err, ErrNoRoom) {
				t.Errorf("Enter past somebody who waits: %v, want ErrNoRoom", err)
			}
		})
		t.Run("closed", func(t *testing.T) {
			l := node(t, rdb, roomName(), Config{})
			d := lead(t, l)
			d.set.Mode = Closed
			d.look()
			if _, err := l.Join(t.Context(), Visitor{}); !errors.Is(err, ErrClosed) {
				t.Errorf("Join: %v, want ErrClosed", err)
			}
		})
	})
}

func TestLine_ProvisionalSessionsTakeAFifthAndBecomeFullOnes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		d := lead(t, l)
		d.set.Limit, d.set.Claim, d.set.Session = 10, time.Minute, time.Hour
		d.look()
		var entered []Turn
		for range 2 {
			turn, err := l.Enter(t.Context(), Visitor{})
			if err != nil || !turn.Grant.Provisional {
				t.Fatalf("Enter = %+v, %v", turn, err)
			}
			entered = append(entered, turn)
		}
		if _, err := l.Enter(t.Context(), Visitor{}); !errors.Is(err, ErrNoRoom) {
			t.Fatalf("the third provisional session of a limit of 10: %v, want ErrNoRoom", err)
		}
		first := entered[0].Grant
		full, err := l.Renew(t.Context(), sessionOf(*first), d.set.Session, d.set.Session)
		if err != nil || full.Provisional || full.Expires.Sub(first.Started) != time.Hour {
			t.Fatalf("Renew = %+v, %v; want a full session of an hour", full, err)
		}
		again, err := l.Renew(t.Context(), sessionOf(*first), d.set.Session, d.set.Session)
		if err != nil || !again.Expires.Equal(full.Expires) {
			t.Errorf("Renew again = %+v, %v; want the same end %v", again, err, full.Expires)
		}
		if _, err := l.Enter(t.Context(), Visitor{}); err != nil {
			t.Errorf("Enter after one became full: %v", err)
		}
		if v := d.look(); v.Active != 3 || v.Provisional != 2 {
			t.Errorf("%+v, want 3 active, 2 of them provisional", v)
		}
	})
}

func TestLine_AdmitsInOrderUpToLimitAndBudget(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		var places []Place
		for range 30 {
			places = append(places, join(t, l, Visitor{}).Place)
		}
		d := lead(t, l)
		d.set.Limit, d.set.Rate = 12, 5
		if got, want := d.admit(100), idsOf(places[:5]); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("first batch %v, want the first 5: one second of the rate", got)
		}
		if got := d.admit(100); len(got) > 1 {
			t.Errorf("at once after it %d more: the budget was spent", len(got))
		}
		d.set.Rate = 1e6
		d.look()
		rdb.HSet(t.Context(), l.k.pace, "budget", 1000)
		before := d.look().Active
		if got := len(d.admit(100)); got != 12-before {
			t.Errorf("%d admitted with %d active, want up to the limit of 12", got, before)
		}
		d.set.Limit = 3 // lowering throws nobody out and lets nobody in
		if got := d.admit(100); len(got) != 0 {
			t.Errorf("%v admitted above the limit", got)
		}
		if v := d.look(); v.Active != 12 || v.Waiting != 18 {
			t.Errorf("%+v, want 12 active and 18 waiting", v)
		}
	})
}

func idsOf(places []Place) (ids []string) {
	for _, p := range places {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestLine_SameBatchTwiceAdmitsOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		var grants []Grant
		d := lead(t, l)
		d.set.Rate = 0
		d.look()
		for range 6 {
			grants = append(grants, d.grant(join(t, l, Visitor{}).Place, l.Now()))
		}
		d.set.Rate, d.set.Limit = 1000, 4
		rdb.Del(t.Context(), l.k.pace)
		d.look()
		for range 2 {
			ids, err := l.Admit(t.Context(), d.term, "one", time.Minute, grants, nil)
			if err != nil || len(ids) != 4 {
				t.Fatalf("Admit = %v, %v; want the first 4", ids, err)
			}
		}
		d.set.Limit = 10
		d.look()
		if ids, err := l.Admit(t.Context(), d.term, "one", time.Minute, grants, nil); err != nil || len(ids) != 4 {
			t.Errorf("the same batch after the limit rose: %v, %v; want the same answer", ids, err)
		}
		if v := d.look(); v.Active != 4 || v.Waiting != 2 {
			t.Errorf("%+v, want 4 active, 2 waiting", v)
		}
	})
}

func TestLine_StaleTermAdmitsNobody(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		p := join(t, l, Visitor{}).Place
		old := lead(t, l)
		old.look()
		rdb.Del(t.Context(), l.k.lease) // it ran out while the leader was paused
		term, err := l.Lead(t.Context(), "other", time.Minute, 0)
		if err != nil || term <= old.term {
			t.Fatalf("the next tenure has term %d, %v; want above %d", term, err, old.term)
		}
		if _, err := l.Admit(t.Context(), old.term, "b", time.Minute, []Grant{old.grant(p, l.Now())}, nil); !errors.Is(err, ErrStaleTerm) {
			t.Errorf("Admit of the old leader: %v, want ErrStaleTerm", err)
		}
		if _, err := l.Look(t.Context(), old.term, old.set); !errors.Is(err, ErrStaleTerm) {
			t.Errorf("Look of the old leader: %v, want ErrStaleTerm", err)
		}
		if err := l.Publish(t.Context(), old.term, Snapshot{}); !errors.Is(err, ErrStaleTerm) {
			t.Errorf("Publish of the old leader: %v, want ErrStaleTerm", err)
		}
		if n := rdb.ZCard(t.Context(), l.k.active).Val(); n != 0 {
			t.Errorf("%d active, want 0", n)
		}
	})
}

func TestLine_TermsGrowThoughRedisForgot(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		first, err := l.Lead(t.Context(), "a", time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		if same, _ := l.Lead(t.Context(), "a", time.Minute, first); same != first {
			t.Errorf("renewed: term %d, want the same %d", same, first)
		}
		if none, _ := l.Lead(t.Context(), "b", time.Minute, 0); none != 0 {
			t.Errorf("another holder got term %d while the lease holds", none)
		}
		rdb.Del(t.Context(), l.k.lease, l.k.fence)
		far := first + 1_000_000_000
		next, _ := l.Lead(t.Context(), "b", time.Minute, far)
		if next <= far {
			t.Errorf("term %d after Redis forgot, want above %d, which this node has seen", next, far)
		}
		if err := l.Resign(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if n := rdb.Exists(t.Context(), l.k.lease).Val(); n != 1 {
			t.Error("a node that does not lead took the lease away")
		}
	})
}
