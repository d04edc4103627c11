//go:build unix

package main

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"ropeline/cmd/ropeline/crowd"
	"ropeline/internal/redisbox/redistest"
)

// leaderSeries and admittedSeries are metrics of the room show.
const (
	leaderSeries   = `ropeline_admitter_leader{room="show"}`
	admittedSeries = `ropeline_admitter_admitted_total{room="show"}`
)

// leads tells which of two nodes leads.
func leads(t *testing.T, a, b *process) (leader, other *process) {
	t.Helper()
	eventually(t, "one of two leads", func() bool {
		onA, errA := a.metric(leaderSeries)
		onB, errB := b.metric(leaderSeries)
		leader, other = a, b
		if onB == 1 {
			leader, other = b, a
		}
		return errA == nil && errB == nil && onA+onB == 1
	})
	return leader, other
}

func TestSystem_PausedLeaderLosesTheLeaseAndNothingElse(t *testing.T) {
	if testing.Short() {
		t.Skip("pauses a node for ten seconds")
	}
	const limit, visitors = 30, 300
	two := twoNodes(t, "rate: 15/s, active_limit: 30, session: 10s, claim_window: 20s")
	cfg := crowd.Default()
	cfg.Target = two.target
	cfg.Visitors, cfg.Arrive, cfg.Stay, cfg.Requests = visitors, 2*time.Second, time.Second, 2
	cfg.LeaveRatio, cfg.VanishRatio, cfg.AbandonRatio = 0, 0, 0
	cfg.ActiveLimit, cfg.Connections, cfg.Seed, cfg.Duration = limit, 128, 1, 3*time.Minute
	var report crowd.Report
	var err error
	var all sync.WaitGroup
	all.Go(func() { report, err = crowd.Run(t.Context(), cfg) })

	leader, other := leads(t, two.a, two.b)
	eventually(t, "the leader admits", func() bool { n, _ := leader.metric(admittedSeries); return n >= 30 })
	leader.signal(syscall.SIGSTOP)
	stopped := time.Now()
	defer leader.signal(syscall.SIGCONT)
	eventually(t, "the other node leads", func() bool { n, err := other.metric(leaderSeries); return err == nil && n == 1 })
	took := time.Since(stopped)
	t.Logf("the other node led %v after the leader was paused", took.Round(time.Millisecond))
	if took > 9*time.Second {
		t.Errorf("the other node led only after %v, the lease is 3 s", took)
	}
	eventually(t, "the other node admits", func() bool { n, err := other.metric(admittedSeries); return err == nil && n > 0 })
	time.Sleep(time.Until(stopped.Add(10 * time.Second))) // the pause itself is what is tested
	leader.signal(syscall.SIGCONT)

	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	two.stop().check(t, limit)
	if report.GotWorse > 0 { // the one that was paused answers what waited in its sockets from what it knew before
		t.Logf("%d visitors were told of an older position for once: %v", report.GotWorse, report.Examples)
		report.GotWorse = 0
	}
	checkReport(t, report, two.behind)
	if want := visitors - visitors/50; report.Admitted != want {
		t.Errorf("%d admitted, want all %d", report.Admitted, want)
	}
	leads(t, two.a, two.b)
}

func TestSystem_RaisedRateIsFollowedWithinThreeSeconds(t *testing.T) {
	const waiting = 1000
	store := redistest.Private(t)
	set := newSettings(t, store.URL(), newSite(t))
	room := "id: show, paths: [/show/], rate: %s, active_limit: 5000, session: 10m, claim_window: 120s"
	set.write(t, fmt.Sprintf(room, "10/s"))
	node := serving(t, set.path)
	joinMany(t, node, waiting)
	admitted := func() (n float64) {
		eventually(t, "the node says how many it has admitted", func() (ok bool) {
			var err error
			n, err = node.metric(admittedSeries)
			return err == nil
		})
		return n
	}
	eventually(t, "it admits at 10/s", func() bool { return admitted() >= 5 })

	set.write(t, fmt.Sprintf(room, "200/s"))
	raised, before := time.Now(), admitted()
	eventually(t, "60 more are admitted", func() bool { return admitted() >= before+60 }) // at 10/s it takes 6 s
	if took := time.Since(raised); took > 3*time.Second {
		t.Errorf("60 more were admitted %v after the rate was raised, want within 3 s", took)
	}
	from, since := admitted(), time.Now()
	eventually(t, "400 more are admitted", func() bool { return admitted() >= from+400 })
	if took := time.Since(since); took < 900*time.Millisecond || took > 8*time.Second {
		t.Errorf("400 more took %v at 200/s, want about 2 s", took)
	}
	if view := node.rooms(newClient(t)); len(view.Rooms) != 1 || view.Rooms[0].Rate != 200 {
		t.Errorf("the admin API says %+v, want a rate of 200", view.Rooms)
	}
}

// joinMany puts n visitors, all of one address, into the line.
func joinMany(t *testing.T, node *process, n int) {
	t.Helper()
	c := newClient(t)
	var all sync.WaitGroup
	todo := make(chan struct{}, n)
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	for range 32 {
		all.Go(func() {
			for range todo {
				res, err := c.Post("http://"+node.listen+"/_ropeline/events/show/queue", "application/json", nil)
				if err != nil {
					t.Error(err)
					continue
				}
				if res.StatusCode != http.StatusCreated {
					t.Errorf("join: %d, want 201", res.StatusCode)
				}
				_ = res.Body.Close()
			}
		})
	}
	all.Wait()
}
