package crowd

import (
	"testing"
	"time"
)

var noon = time.Unix(1_800_000_000, 0)

// served is a visitor admitted with number at noon + issued s, who held the session for hold.
func served(id int, number int64, issued int, hold time.Duration) visit {
	at := noon.Add(time.Duration(issued) * time.Second)
	return visit{id: id, outcome: admitted, joined: true, number: number, sessions: []session{{
		claims:   claims{ID: string(rune('a' + id)), Number: number, Generation: 1, Issued: at.Unix(), Expires: at.Add(time.Hour).Unix()},
		received: at, ended: at.Add(hold), expires: at.Add(time.Hour),
	}}}
}

func TestOutOfOrder(t *testing.T) {
	inOrder := []visit{served(0, 1, 0, 0), served(1, 2, 0, 0), served(2, 3, 1, 0), served(3, 4, 5, 0)}
	overtaken := []visit{served(0, 3, 9, 0), served(1, 4, 5, 0), served(2, 5, 9, 0)}
	vanished := []visit{served(0, 3, 9, 0), served(1, 4, 5, 0)}
	vanished[0].vanished = true
	late := []visit{served(0, 3, 9, 0), served(1, 4, 5, 0)}
	late[0].late = true
	generations := []visit{served(0, 3, 9, 0), served(1, 4, 5, 0)}
	generations[1].sessions[0].claims.Generation = 2
	outage := []visit{served(0, 3, 9, 0), served(1, 4, 5, 0)}
	outage[1].sessions[0].claims.Outage = true

	for _, c := range []struct {
		name   string
		visits []visit
		want   int
	}{
		{"nobody", nil, 0},
		{"in order", inOrder, 0},
		{"reported in another order", []visit{inOrder[3], inOrder[1], inOrder[0], inOrder[2]}, 0},
		{"within one batch", []visit{served(0, 3, 6, 0), served(1, 4, 5, 0)}, 0},
		{"overtaken by more than a batch", overtaken, 1},
		{"overtaken by one far behind", []visit{served(0, 1, 9, 0), served(1, 2, 9, 0), served(2, 900, 5, 0)}, 2},
		{"vanished", vanished, 0},
		{"late", late, 0},
		{"two generations", generations, 0},
		{"while the store was away", outage, 0},
	} {
		if got := outOfOrder(c.visits, time.Second); got.count != c.want || len(got.examples) != min(c.want, maxExamples) {
			t.Errorf("%s: got %d %q, want %d", c.name, got.count, got.examples, c.want)
		}
	}
}

func TestOutOfOrder_AgreesWithThePlainDefinition(t *testing.T) {
	rng := newSource(3, 0)
	for range 200 {
		var visits []visit
		for i := range 1 + rng.IntN(20) {
			v := served(i, int64(i+1), i/2+rng.IntN(4), 0)
			v.vanished = rng.IntN(5) == 0
			visits = append(visits, v)
		}
		want := 0
		for _, a := range visits {
			for _, b := range visits {
				if !a.vanished && !b.vanished && a.number < b.number && a.sessions[0].claims.Issued > b.sessions[0].claims.Issued+1 {
					want++
					break
				}
			}
		}
		rng.Shuffle(len(visits), func(i, j int) { visits[i], visits[j] = visits[j], visits[i] })
		if got := outOfOrder(visits, time.Second).count; got != want {
			t.Fatalf("got %d, want %d: %+v", got, want, visits)
		}
	}
}

func TestActivePeak(t *testing.T) {
	s := time.Second
	forever := served(0, 1, 0, 0)
	forever.sessions[0].ended = time.Time{}
	copied := served(1, 2, 1, 5*s)
	copied.sessions[0].claims.ID = served(0, 1, 0, 0).sessions[0].claims.ID
	for _, c := range []struct {
		name   string
		visits []visit
		want   int
	}{
		{"nobody", nil, 0},
		{"one after the other", []visit{served(0, 1, 0, 5*s), served(1, 2, 5, 5*s)}, 1},
		{"overlapping", []visit{served(0, 1, 0, 5*s), served(1, 2, 4, 5*s), served(2, 3, 8, 5*s)}, 2},
		{"never ended", []visit{forever, served(1, 2, 3000, s)}, 2},
		{"expired", []visit{forever, served(1, 2, 3600, s)}, 1},
		{"one session in two hands", []visit{served(0, 1, 0, 5*s), copied}, 1},
	} {
		if got := activePeak(c.visits); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestServedTwice(t *testing.T) {
	two := served(0, 1, 0, 0)
	two.sessions = append(two.sessions, served(1, 2, 0, 0).sessions[0])
	copied := served(1, 2, 0, 0)
	copied.sessions[0].claims.ID = served(0, 1, 0, 0).sessions[0].claims.ID
	again := served(0, 1, 0, 0)
	again.sessions = append(again.sessions, served(1, 2, 0, 0).sessions[0])
	again.sessions[1].again = true
	generation := served(1, 1, 0, 0)
	generation.sessions[0].claims.Generation = 2
	for _, c := range []struct {
		name   string
		visits []visit
		want   int
	}{
		{"nobody twice", []visit{served(0, 1, 0, 0), served(1, 2, 0, 0)}, 0},
		{"two sessions for a place", []visit{two}, 1},
		{"a second turn after the first ran out", []visit{again}, 0},
		{"one session for two", []visit{served(0, 1, 0, 0), copied}, 1},
		{"one number for two", []visit{served(0, 1, 0, 0), served(1, 1, 0, 0)}, 1},
		{"the same number in two generations", []visit{served(0, 1, 0, 0), generation}, 0},
	} {
		if got := servedTwice(c.visits); got.count != c.want {
			t.Errorf("%s: got %d %q, want %d", c.name, got.count, got.examples, c.want)
		}
	}
}

func TestLosses(t *testing.T) {
	visits := []visit{
		{outcome: admitted, joined: true}, {outcome: left, joined: true}, {outcome: gaveUp, joined: true},
		{outcome: stillWaiting, joined: true}, {outcome: notJoined}, {outcome: cheated},
	}
	if got := losses(visits); got.count != 0 {
		t.Errorf("got %d %q, want 0", got.count, got.examples)
	}
	visits = append(visits, visit{outcome: lost, joined: true}, visit{outcome: notJoined, joined: true})
	if got := losses(visits); got.count != 2 {
		t.Errorf("got %d %q, want 2", got.count, got.examples)
	}
}

func TestGotWorseAndTurnedAway(t *testing.T) {
	visits := []visit{{}, {worse: []string{"x", "y"}}, {turned: []string{"z"}}}
	if got := gotWorse(visits); got.count != 1 {
		t.Errorf("got worse: %d, want 1", got.count)
	}
	if got := turnedAway(visits); got.count != 1 {
		t.Errorf("turned away: %d, want 1", got.count)
	}
}

func TestTrack(t *testing.T) {
	at := func(number int64, ahead, waiting int) place {
		return place{Number: number, Ahead: &ahead, Waiting: waiting}
	}
	type told struct {
		place    place
		cameBack int64
	}
	for _, c := range []struct {
		name  string
		told  []told
		batch int
		worse int // answers that are worse
	}{
		{"forward", []told{{at(9, 100, 500), 0}, {at(9, 50, 500), 0}, {place{Number: 9}, 0}}, 25, 0},
		{"another number", []told{{at(9, 100, 500), 0}, {at(8, 50, 500), 0}, {at(8, 50, 500), 0}}, 25, 1},
		{"up to 25", []told{{at(9, 100, 500), 0}, {at(9, 125, 500), 0}}, 25, 0},
		{"more than 25", []told{{at(9, 100, 500), 0}, {at(9, 126, 500), 0}}, 25, 1},
		{"up to a batch", []told{{at(9, 100, 500), 0}, {at(9, 180, 500), 0}}, 80, 0},
		{"up to a hundredth of the line", []told{{at(9, 100, 20000), 0}, {at(9, 300, 20000), 0}}, 25, 0},
		{"more than a hundredth", []told{{at(9, 100, 20000), 0}, {at(9, 301, 20000), 0}}, 25, 1},
		{"creeping back", []told{{at(9, 100, 500), 0}, {at(9, 120, 500), 0}, {at(9, 140, 500), 0}}, 25, 1},
		{"others came back", []told{{at(9, 100, 500), 3}, {at(9, 140, 500), 18}}, 25, 0},
		{"others came back before", []told{{at(9, 100, 500), 18}, {at(9, 140, 500), 18}}, 25, 1},
		{"before opening", []told{{place{}, 0}, {at(9, 100, 500), 0}}, 25, 0},
	} {
		var tr track
		worse := 0
		for _, x := range c.told {
			if tr.see(x.place, c.batch, x.cameBack) != "" {
				worse++
			}
		}
		if worse != c.worse {
			t.Errorf("%s: worse %d times, want %d", c.name, worse, c.worse)
		}
	}
}
