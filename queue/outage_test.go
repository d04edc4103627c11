package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// away makes l believe that Redis has not answered for a long time.
func away(l *Line) {
	l.read.Store(-1 << 62)
	l.failing.Store(true)
}

// back makes it notice that Redis answers again.
func back(t *testing.T, l *Line) {
	t.Helper()
	if err := l.refreshOrOpen(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.failing.Store(false)
}

func TestOutage_NobodyIsAbsentJustBecauseNobodyLooked(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 20)
		if d.look().Amnesty {
			t.Fatal("everybody counts as present although the leader has looked all the time")
		}
		window := l.Now().UnixMilli() / windowMillis
		for w := window - 1; w <= window+4; w++ {
			rdb.Del(t.Context(), l.k.here(places[0].Generation, w)) // the bits have lapsed
		}
		longAgo := l.Now().Add(-2 * time.Minute).UnixMilli()
		rdb.HSet(t.Context(), l.k.state, "looked", longAgo)
		for look := range 2 {
			if !d.look().Amnesty {
				t.Fatalf("look %d after two minutes without a leader: those who wait count as absent", look+1)
			}
		}
		rdb.HSet(t.Context(), l.k.state, "amnesty", longAgo)
		if d.look().Amnesty {
			t.Error("it lasts for ever")
		}
	})
}

func TestOutage_PollsMarkPresenceWhileRedisIsAway(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 1)
		window := l.Now().UnixMilli() / windowMillis
		for w := window - 1; w <= window+4; w++ {
			rdb.Del(t.Context(), l.k.here(places[0].Generation, w))
		}
		l.presence.take(l.Now())
		l.presence.windows = nil // a node that has just started
		d.publish(l)
		away(l)
		if r, err := l.Poll(t.Context(), places[0]); err != nil || r.State != Holding || r.Ahead != 0 {
			t.Fatalf("Poll without Redis: %+v, %v; want holding with the last position", r, err)
		}
		back(t, l)
		if err := l.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.admit(1); len(got) != 1 {
			t.Error("who polled throughout counts as absent afterwards")
		}
	})
}

func TestOutage_PlaceThatRedisLostIsPutBackByItsNextPoll(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Run("the last writes", func(t *testing.T) {
			l, d, places := waiting(t, rdb, 7)
			rdb.ZRem(t.Context(), l.k.line, places[2].ID, places[6].ID)
			d.publish(l)
			for _, i := range []int{2, 6} {
				if r, err := l.Poll(t.Context(), places[i]); err != nil || r.State != Waiting || r.Ahead != i {
					t.Errorf("place %d: %+v, %v; want it back with %d ahead", i+1, r, err, i)
				}
			}
			if n := rdb.ZCard(t.Context(), l.k.line).Val(); n != 7 {
				t.Errorf("%d in line, want 7", n)
			}
		})
		t.Run("everything", func(t *testing.T) {
			l, _, places := waiting(t, rdb, 7)
			rdb.Del(t.Context(), append([]string{l.k.used(places[0].Generation)}, l.k.stateToBatch...)...)
			back(t, l)
			d := lead(t, l)
			d.publish(l)
			for _, i := range []int{6, 0, 3, 1, 5, 2, 4} {
				if _, err := l.Poll(t.Context(), places[i]); err != nil {
					t.Fatal(err)
				}
			}
			if got := d.admit(7); len(got) != 7 || got[0] != places[0].ID || got[6] != places[6].ID {
				t.Errorf("admitted %v, want the old order %v", got, idsOf(places))
			}
		})
	})
}

func TestOutage_NobodyIsAdmittedUntilLengthenedSessionsAreWritten(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, _ := waiting(t, rdb, 3)
		if d.look().Budget < 1 {
			t.Fatal("no budget before the outage: the test proves nothing")
		}
		away(l)
		back(t, l)
		if v := d.look(); v.Budget != 0 {
			t.Errorf("a budget of %v just after the outage, want 0", v.Budget)
		}
		empty := node(t, rdb, roomName(), Config{})
		lead(t, empty).look()
		away(empty)
		back(t, empty)
		if turn := join(t, empty, Visitor{}); turn.Grant != nil {
			t.Error("admitted at once just after the outage")
		}
		l.recovered.Store(-1 << 62)
		if v := d.look(); v.Budget < 1 {
			t.Errorf("a budget of %v a while later", v.Budget)
		}
	})
}

func TestOutage_SessionEndedWithoutRedisIsWrittenLater(t *testing.T) {
	server := redistest.Private(t)
	rdb := server.Client()
	defer rdb.Close()
	l, d, places := waiting(t, rdb, 1)
	d.admit(1)
	turn, err := l.Ask(t.Context(), places[0])
	if err != nil {
		t.Fatal(err)
	}
	server.Pause()
	l.cfg.Timeout = 50 * time.Millisecond
	if ended, err := l.Leave(t.Context(), places[0], turn.Grant.Expires); err != nil || !ended || !l.Ended(places[0].ID) {
		t.Errorf("Leave without Redis = %v, %v; want the session ended here", ended, err)
	}
	server.Resume()
	l.cfg.Timeout = 10 * time.Second
	if err := l.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rdb.ZCard(t.Context(), l.k.active).Val(); n != 0 {
		t.Errorf("%d active after it was written, want 0", n)
	}
	if _, err := l.Ask(t.Context(), places[0]); !errors.Is(err, ErrUsed) {
		t.Errorf("Ask for it: %v, want ErrUsed", err)
	}
}

func TestPoll_EndOfAPlaceIsNotAskedAnewEachTime(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 1)
		d.admit(1)
		d.publish(l)
		if r, err := l.Poll(t.Context(), places[0]); err != nil || r.State != Admitted {
			t.Fatalf("%+v, %v", r, err)
		}
		kept, ok := l.asked.Get(places[0].ID)
		if !ok {
			t.Fatal("the admission is not remembered")
		}
		kept.at, kept.turn.Grant = time.Now().Add(time.Hour), &Grant{Token: "remembered"}
		l.asked.Put(places[0].ID, kept)
		if r, err := l.Poll(t.Context(), places[0]); err != nil || r.Grant.Token != "remembered" {
			t.Errorf("asked Redis again: %+v, %v", r, err)
		}
	})
}

func TestOutage_NumberThatRedisLostIsNotGivenAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 3)
		fresh := node(t, rdb, l.Room(), Config{}) // has seen nobody
		rdb.ZRem(t.Context(), l.k.line, places[2].ID)
		rdb.Set(t.Context(), l.k.seq, 2, 0) // the failover lost the third join
		fresh.era.Store(&era{generation: places[0].Generation})
		d.publish(fresh)
		if _, err := fresh.Poll(t.Context(), places[2]); err != nil {
			t.Fatal(err)
		}
		d.publish(fresh)
		d.publish(fresh)
		if r, err := fresh.Poll(t.Context(), places[2]); err != nil || r.State != Waiting || r.Ahead != 2 {
			t.Errorf("the place that was lost: %+v, %v; want it back with 2 ahead", r, err)
		}
		if newcomer := join(t, fresh, Visitor{}); newcomer.Place.Number != 4 {
			t.Errorf("the next newcomer has number %d, want 4", newcomer.Place.Number)
		}
		if n := rdb.ZCard(t.Context(), l.k.line).Val(); n != 4 {
			t.Errorf("%d in line, want 4", n)
		}
	})
}

func TestOutage_PresenceIsToldAnewToARedisThatLostIt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, places := waiting(t, rdb, 5)
		d.publish(l)
		poll := func() {
			for _, p := range places {
				if _, err := l.Poll(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		poll()
		generation, window := places[0].Generation, l.Now().UnixMilli()/windowMillis
		lost := append([]string{l.k.used(generation)}, l.k.stateToBatch...)
		for w := window - 1; w <= window+5; w++ {
			lost = append(lost, l.k.here(generation, w))
		}
		rdb.Del(t.Context(), lost...)
		back(t, l)
		d = lead(t, l)
		d.publish(l)
		poll()
		for i := range 3 {
			later := l.Now().Add(time.Duration(i) * windowMillis * time.Millisecond)
			heads, err := l.Candidates(t.Context(), 0, 10, later)
			if err != nil || len(heads) != 5 {
				t.Fatalf("%d in line, %v; want 5", len(heads), err)
			}
			for _, h := range heads {
				if !h.Present {
					t.Errorf("number %d, who polls all the time, is absent %d windows later", h.Number, i)
				}
			}
		}
	})
}

func TestOutage_WhoStartsAfterItIsCalmToo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, d, _ := waiting(t, rdb, 1)
		d.look()
		rdb.HSet(t.Context(), l.k.state, "looked", l.Now().Add(-time.Minute).UnixMilli())
		fresh := node(t, rdb, l.Room(), Config{}) // did not see the outage
		v, err := fresh.Look(t.Context(), d.term, d.set)
		if err != nil || v.Budget != 0 || !v.Amnesty {
			t.Errorf("the first look after it: %+v, %v; want no budget", v, err)
		}
		rdb.HSet(t.Context(), l.k.state, "calm", 0)
		rdb.Del(t.Context(), l.k.pace) // which has had no time to grow
		if v, err := fresh.Look(t.Context(), d.term, d.set); err != nil || v.Budget < 1 {
			t.Errorf("a while later: %+v, %v; want a budget", v, err)
		}
		empty := node(t, rdb, roomName(), Config{})
		lead(t, empty).look()
		rdb.HSet(t.Context(), empty.k.state, "looked", l.Now().Add(-time.Minute).UnixMilli())
		if turn := join(t, empty, Visitor{}); turn.Grant != nil {
			t.Error("admitted at once although nobody has led for a minute")
		}
	})
}
