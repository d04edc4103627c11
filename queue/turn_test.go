package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// eventually waits for what Redis does by its own clock.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// waiting is a line of n visitors and its leader, who has not admitted anybody.
func waiting(t *testing.T, rdb redis.UniversalClient, n int) (*Line, *leader, []Place) {
	t.Helper()
	l := node(t, rdb, roomName(), Config{})
	var places []Place
	for range n {
		places = append(places, join(t, l, Visitor{}).Place)
	}
	return l, lead(t, l), places
}

func TestTurn_ClaimHandsTheSameTokenOutAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 2)
		d.admit(1)
		turn, err := l.Ask(t.Context(), places[0])
		if err != nil || turn.Grant == nil || turn.Grant.Token != "signed-"+places[0].ID {
			t.Fatalf("Ask = %+v, %v; want the signed token", turn, err)
		}
		again, err := l.Ask(t.Context(), places[0])
		if err != nil || again.Grant == nil || *again.Grant != *turn.Grant {
			t.Errorf("Ask again = %+v, %v; want the same grant", again, err)
		}
		end := time.UnixMilli(int64(rdb.ZScore(t.Context(), l.k.active, places[0].ID).Val()))
		if want := turn.Grant.Expires.Add(2 * time.Second); end.UnixMilli() != want.UnixMilli() {
			t.Errorf("active until %v, want the session's end and 2 s: %v", end, want)
		}
		if other, err := l.Ask(t.Context(), places[1]); err != nil || other.Grant != nil || other.Ahead != 0 {
			t.Errorf("the next in line: %+v, %v; want it waiting with nobody ahead", other, err)
		}
	})
}

func TestTurn_UnclaimedTokenFreesItsSlotAndItsVisitorIsServedNext(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 3)
		d.set.Limit, d.set.Claim = 1, time.Millisecond
		if got := d.admit(1); len(got) != 1 {
			t.Fatalf("admitted %v", got)
		}
		eventually(t, "the unclaimed slot is free", func() bool { return d.look().Active == 0 })
		turn, err := l.Ask(t.Context(), places[0])
		if err != nil || turn.Grant != nil || turn.Ahead != 0 {
			t.Fatalf("back after the claim window: %+v, %v; want to be next", turn, err)
		}
		d.set.Claim = time.Minute
		if got := d.admit(1); len(got) != 1 || got[0] != places[0].ID {
			t.Errorf("served next: %v, want %s", got, places[0].ID)
		}
	})
}

func TestTurn_UsedPlaceNeverComesBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 3)
		d.set.Claim, d.set.Session = time.Minute, -time.Minute+50*time.Millisecond // token good for 50 ms
		d.admit(1)
		if _, err := l.Ask(t.Context(), places[0]); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the session's turn is over", func() bool {
			_, err := l.Ask(t.Context(), places[0])
			return errors.Is(err, ErrUsed)
		})
		if _, err := l.Leave(t.Context(), places[1], time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Ask(t.Context(), places[1]); !errors.Is(err, ErrUsed) {
			t.Errorf("Ask for a place that was given up: %v, want ErrUsed", err)
		}
		if report, err := l.Poll(t.Context(), places[1]); err != nil || report.State != Expired {
			t.Errorf("Poll of it: %+v, %v; want expired", report, err)
		}
		for _, used := range places[:2] {
			if fresh := join(t, l, Visitor{Place: &used}); fresh.Place.ID == used.ID || fresh.Place.Number <= 3 {
				t.Errorf("joining with a used place gave %+v, want a new one at the tail", fresh.Place)
			}
		}
	})
}

func TestTurn_AbsentAreSkippedAndServedNextWhenBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 6)
		now := l.Now().UnixMilli() / windowMillis
		for _, window := range []int64{now - 1, now, now + 1} {
			rdb.Del(t.Context(), l.k.here(places[0].Generation, window)) // nobody is there any more
		}
		for _, p := range places[2:] { // these poll
			if _, err := l.Poll(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			l.presence.mark(p, l.Now(), leastPatience)
		}
		if err := l.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.admit(2); len(got) != 2 || got[0] != places[2].ID || got[1] != places[3].ID {
			t.Fatalf("admitted %v, want the first two that are present: %v", got, idsOf(places[2:4]))
		}
		d.publish(l)
		report, err := l.Poll(t.Context(), places[1]) // back
		if err != nil || report.State != Waiting || report.Ahead != 0 {
			t.Fatalf("back after the turn: %+v, %v; want waiting with nobody ahead", report, err)
		}
		if got := d.admit(1); len(got) != 1 || got[0] != places[1].ID {
			t.Errorf("admitted %v, want the one who came back, %s", got, places[1].ID)
		}
	})
}

func TestTurn_LeavingEndsASessionOnEveryNode(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 3)
		other := node(t, rdb, l.Room(), Config{})
		d.admit(1)
		turn, err := l.Ask(t.Context(), places[0])
		if err != nil {
			t.Fatal(err)
		}
		ended, err := l.Leave(t.Context(), turn.Place, turn.Grant.Expires)
		if err != nil || !ended {
			t.Fatalf("Leave = %v, %v", ended, err)
		}
		if !l.Ended(turn.Place.ID) {
			t.Error("the node that saw the end still lets the session in")
		}
		if other.Ended(turn.Place.ID) {
			t.Error("the other node knew before it read the snapshot: the test proves nothing")
		}
		changed := other.EndedChanged()
		d.publish(other)
		if !other.Ended(turn.Place.ID) {
			t.Error("the other node still lets the session in after reading the snapshot")
		}
		select {
		case <-changed:
		default:
			t.Error("nobody was told that a session ended")
		}
		if v := d.look(); v.Active != 0 {
			t.Errorf("%d active, want 0", v.Active)
		}
		if _, err := l.Renew(t.Context(), sessionOf(*turn.Grant), time.Hour, time.Hour); !errors.Is(err, ErrUsed) {
			t.Errorf("Renew of an ended session: %v, want ErrUsed", err)
		}
		if ended, err := l.Leave(t.Context(), places[1], time.Time{}); err != nil || ended {
			t.Errorf("leaving the line: ended %v, %v; want no session ended", ended, err)
		}
	})
}

func TestTurn_RenewNeverPassesTheLongestSession(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 1)
		d.set.Session = time.Minute
		d.admit(1)
		turn, err := l.Ask(t.Context(), places[0])
		if err != nil {
			t.Fatal(err)
		}
		longer, err := l.Renew(t.Context(), sessionOf(*turn.Grant), time.Hour, 10*time.Minute)
		if err != nil || longer.Expires.Sub(turn.Grant.Started) != 10*time.Minute || longer.Token != "" {
			t.Errorf("Renew = %+v, %v; want 10 minutes from the start, to be signed anew", longer, err)
		}
		shorter, err := l.Renew(t.Context(), sessionOf(*turn.Grant), time.Second, time.Minute)
		if err != nil || !shorter.Expires.Equal(longer.Expires) {
			t.Errorf("Renew with less = %+v, %v; want it never to shorten", shorter, err)
		}
		poll, err := l.Ask(t.Context(), places[0])
		if err != nil || !poll.Grant.Expires.Equal(longer.Expires) {
			t.Errorf("a poll after it: %+v, %v; want the lengthened session", poll, err)
		}
	})
}

func sessionOf(g Grant) Session { return Session{Place: g.Place, Started: g.Started, Ends: g.Expires} }

func TestTurn_SessionLengthenedWithoutRedisIsWrittenBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 2)
		d.admit(2)
		turn, err := l.Ask(t.Context(), places[0])
		if err != nil {
			t.Fatal(err)
		}
		l.read.Store(-1 << 62) // Redis has not answered for years
		l.failing.Store(true)
		alone, err := l.Renew(t.Context(), sessionOf(*turn.Grant), time.Hour, 2*time.Hour)
		if left := alone.Expires.Sub(l.Now()); err != nil || left < 59*time.Minute || alone.Token != "" {
			t.Fatalf("Renew without Redis = %+v, %v; want an hour from now, to be signed", alone, err)
		}
		l.failing.Store(false)
		rdb.ZRem(t.Context(), l.k.active, places[0].ID) // its old end has passed meanwhile
		if err := l.settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := float64(alone.Expires.UnixMilli() + leewayMillis)
		if got := rdb.ZScore(t.Context(), l.k.active, places[0].ID).Val(); got != want {
			t.Errorf("active until %.0f, want %.0f", got, want)
		}
		if len(l.owed.longer) != 0 {
			t.Error("still owed after it was written")
		}
		ended, err := l.Ask(t.Context(), places[1])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Leave(t.Context(), places[1], ended.Grant.Expires); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Renew(t.Context(), sessionOf(*ended.Grant), time.Hour, time.Hour); !errors.Is(err, ErrUsed) {
			t.Errorf("Renew of a session that ended: %v, want ErrUsed", err)
		}
	})
}

func TestTurn_FailedLeaveKeepsThePlace(t *testing.T) {
	rdb := redistest.Private(t)
	client := rdb.Client()
	defer client.Close()
	l, _, places := waiting(t, client, 1)
	rdb.Kill()
	if _, err := l.Leave(t.Context(), places[0], time.Time{}); !errors.Is(err, ErrAway) {
		t.Fatalf("Leave without Redis: %v, want ErrAway", err)
	}
	if l.Ended(places[0].ID) {
		t.Error("the place counts as given up although nothing was written")
	}
}

func TestTurn_AdmittedAtOnceIsNeverToldToWait(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{})
		lead(t, l).publish(l)
		turn := join(t, l, Visitor{})
		if turn.Grant == nil {
			t.Fatal("not admitted at once: the test proves nothing")
		}
		report, err := l.Poll(t.Context(), turn.Place) // before the next snapshot
		if err != nil || report.State != Admitted {
			t.Errorf("the poll after it: %s, %v; want admitted", report.State, err)
		}
	})
}

func TestTurn_NodeThatWasPausedAsksBeforeItTells(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 10)
		other := node(t, rdb, l.Room(), Config{})
		d.publish(l, other)
		for range 5 {
			d.admit(1)
		}
		if r, err := l.Poll(t.Context(), places[9]); err != nil || r.Ahead != 9 {
			t.Fatalf("from the snapshot of before: %d ahead, %v; want 9, or the test proves nothing", r.Ahead, err)
		}
		other.read.Store(-1 << 62) // it has just been continued
		if r, err := other.Poll(t.Context(), places[9]); err != nil || r.Ahead != 4 || r.State != Waiting {
			t.Errorf("a node that was paused: %+v, %v; want 4 ahead", r, err)
		}
	})
}

func TestTurn_OnePlacePerCustomer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		room := roomName()
		nodes := []*Line{node(t, rdb, room, Config{}), node(t, rdb, room, Config{})}
		who := Visitor{Digests: []string{"digest-of-a-customer"}}
		places := make([]Place, 40)
		var wg sync.WaitGroup
		for i := range places {
			wg.Go(func() {
				turn, err := nodes[i%2].Join(context.Background(), who)
				if err != nil {
					t.Error(err)
				}
				places[i] = turn.Place
			})
		}
		wg.Wait()
		for _, p := range places {
			if p.ID != places[0].ID || p.Number != 1 {
				t.Fatalf("places %+v and %+v of one customer", p, places[0])
			}
		}
		if other := join(t, nodes[0], Visitor{Digests: []string{"another"}}); other.Place.Number != 2 {
			t.Errorf("another customer has number %d, want 2", other.Place.Number)
		}
		if _, err := nodes[0].Leave(t.Context(), places[0], time.Time{}); err != nil {
			t.Fatal(err)
		}
		if fresh := join(t, nodes[1], who); fresh.Place.Number != 3 {
			t.Errorf("after leaving: %+v, want a new place", fresh.Place)
		}
	})
}

func TestTurn_FullLineRefusesNewcomersOnly(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := node(t, rdb, roomName(), Config{MaxWaiting: 2})
		first := join(t, l, Visitor{}).Place
		join(t, l, Visitor{})
		if _, err := l.Join(t.Context(), Visitor{}); !errors.Is(err, ErrLineFull) {
			t.Errorf("the third of a line of two: %v, want ErrLineFull", err)
		}
		if again := join(t, l, Visitor{Place: &first}); again.Place.Number != 1 {
			t.Errorf("who stands in it already: %+v", again)
		}
	})
}

func TestSharedKeys_EveryNodeGetsTheSame(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		rdb.Del(t.Context(), signingKeys)
		got := make([]string, 20)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				b, err := SharedKeys(context.Background(), rdb, func() ([]byte, error) { return []byte(NewID()), nil })
				if err != nil {
					t.Error(err)
				}
				got[i] = string(b)
			})
		}
		wg.Wait()
		for _, g := range got {
			if g != got[0] || g == "" {
				t.Fatalf("keys %q and %q", g, got[0])
			}
		}
	})
}
