//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"ropeline/internal/pgbox"
)

// saleTime is how long the long sale goes on: ROPELINE_SALE, or some seconds.
func saleTime(t *testing.T) time.Duration {
	d, err := time.ParseDuration(os.Getenv("ROPELINE_SALE"))
	if err != nil && os.Getenv("ROPELINE_SALE") != "" {
		t.Fatal(err)
	}
	return max(d, 6*time.Second)
}

// Half of the sale is before the crash, half after it. The sandbox is the node's own and crashes with it.
func TestSale_GoesOnAfterTheNodeWasKilled(t *testing.T) {
	t.Parallel()
	s := newStand(t, pgbox.Config{}, "A..O", 20)
	here := s.newSpot("serve")
	node := s.start(here)
	sale := s.open(roomEvent, 64, 2, 50*time.Millisecond, here.listen)
	half := saleTime(t) / 2
	began := time.Now()
	sale.more(100)
	time.Sleep(half - time.Since(began))
	node.crash()
	began = time.Now()
	node = s.start(here)
	t.Logf("it served again %v after it was killed", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	sale.more(100)
	time.Sleep(half - time.Since(began))
	sale.close()
	s.reconcile()
	s.settle()
	sale.check(t)
	if n := sale.counted("turned away"); n > 0 {
		t.Errorf("%d times an admitted customer was turned away", n)
	}
	node.signal(syscall.SIGTERM)
	if code := node.ended(patience); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	s.checkMoney(s.keptBank())
	s.audited()
}

// Redis halts, then it is gone with all that it knew; then the broker; then Postgres.
func TestSale_GoesOnWhileAStoreIsAway(t *testing.T) {
	t.Parallel()
	s := newStand(t, pgbox.Config{}, "A..O", 20)
	kafka := newBroker(t)
	s.exec(writtenSQL)
	s.settings = fmt.Sprintf("kafka: {brokers: [%q]}", kafka.cluster.ListenAddrs()[0])
	here := s.newSpot("serve")
	s.openBank(here.listen)
	node := s.start(here)
	sale := s.open(roomEvent, 32, 3, 50*time.Millisecond, here.listen)
	sale.more(60)

	s.redis.Pause()
	sale.more(40)
	s.redis.Resume()
	sale.more(20)
	if n := sale.counted("turned away"); n > 0 {
		t.Errorf("%d times an admitted customer was turned away while Redis halted", n)
	}
	s.redis.Kill()
	sale.more(40)
	if n := sale.counted("turned away"); n > 0 {
		t.Errorf("%d times an admitted customer was turned away while Redis was gone", n)
	}
	if err := s.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	sale.more(20)

	kafka.door.halt(true)
	sale.more(40)
	kafka.door.halt(false)
	kafka.door.shut(false)
	sale.more(60)
	if n := query[int64](s, `SELECT count(*) FROM bk.outbox`)[0]; n < 60 {
		t.Errorf("%d events wait for the broker, want those of 60 holds at least", n)
	}
	kafka.door.open(t)
	sale.more(20)

	s.pg.Pause()
	s.askWithoutPostgres(here.listen, sale)
	s.pg.Resume()
	sale.more(20)
	s.pg.Kill()
	s.askWithoutPostgres(here.listen, sale)
	if err := s.pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	sale.more(40)
	sale.close()
	s.reconcile()
	s.settle()
	sale.check(t)
	node.signal(syscall.SIGTERM)
	if code := node.ended(patience); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	s.checkMoney(s.bank.Payments())
	kafka.check(t, s.written())
	s.audited()
}

// askWithoutPostgres asks each route that needs Postgres, the sale going on.
func (s *stand) askWithoutPostgres(listen string, all *sale) {
	s.t.Helper()
	hold := uuid.NewString() // whose it is can't be known
	b := all.newBuyer("prober", 0)
	b.join()
	b.key = all.anyKey()
	asks := []struct{ method, path, body string }{
		{http.MethodPost, fmt.Sprintf("/v1/events/%d/holds", openEvent), `{"seats":["A1"]}`}, // nobody has asked for it before
		{http.MethodPost, "/v1/holds/" + hold + "/checkout", `{}`},
		{http.MethodPost, "/v1/bookings/" + hold + "/cancel", ``},
		{http.MethodGet, "/v1/bookings/" + hold, ``},
		{http.MethodGet, "/v1/holds/" + hold, ``},
		{http.MethodDelete, "/v1/holds/" + hold, ``},
	}
	var probes sync.WaitGroup
	for _, one := range asks {
		probe := *b
		probes.Go(func() {
			if a := probe.ask(one.method, "http://"+listen+one.path, one.body, "without-postgres"); a.status != http.StatusServiceUnavailable {
				s.t.Errorf("%s %s while Postgres is away: %d %s, want 503", one.method, one.path, a.status, a.Code)
			}
		})
	}
	probes.Go(func() {
		body := paidBody(uuid.New(), 1, "VND")
		got, err := s.tryPost(listen, s.signed(s.signer, "msg_without_postgres", time.Now(), body), body)
		if err != nil || got.status != http.StatusServiceUnavailable {
			s.t.Errorf("a callback while Postgres is away: %d %s %v, want 503, so that the provider calls again", got.status, got.text, err)
		}
	})
	probes.Wait()
	told := all.counted("answered 503")
	eventually(s.t, "the buyers are told 503", func() bool { return all.counted("answered 503") > told+10 })
}

// Two nodes share the database and Redis, and nothing else.
func TestSale_TwoNodesSellOneEvent(t *testing.T) {
	t.Parallel()
	s := newStand(t, pgbox.Config{Fast: true}, "A..O", 20)
	one, other := s.newSpot("serve"), s.newSpot("serve")
	s.openBank(one.listen)
	s.start(one)
	s.start(other)
	sale := s.open(roomEvent, 48, 2, 50*time.Millisecond, one.listen, other.listen)
	sale.more(200)
	s.bank.CallTo("http://" + other.listen + "/v1/payments/callback/sandbox")
	sale.more(200)
	sale.close()
	if err := s.bank.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.swept()
	s.mapsAgree(one, other)
	s.settle()
	sale.check(t)
	if n := sale.counted("turned away"); n > 0 {
		t.Errorf("%d times an admitted customer was turned away", n)
	}
	s.checkMoney(s.bank.Payments())
	for _, event := range []int{openEvent, roomEvent} {
		s.seatGoesRound(event, one, other)
	}
	s.settle()
	s.audited()
}

// mapsAgree waits until the seat maps of both nodes say what is in the database, and fails the test if that takes longer than a
// map may be old, and as long again for a busy machine.
func (s *stand) mapsAgree(nodes ...spot) {
	s.t.Helper()
	const busy = 2 * time.Second
	began := time.Now()
	eventually(s.t, "the seat maps agree", func() bool {
		truth := map[string]string{}
		for _, pair := range query[string](s, `
SELECT seat_code || ' ' || CASE WHEN status = 'HELD' AND hold_expires_at <= now() THEN 'AVAILABLE' ELSE status END
  FROM bk.seat
 WHERE event_id = $1`, roomEvent) {
			var seat, status string
			if _, err := fmt.Sscan(pair, &seat, &status); err != nil {
				s.t.Fatal(err)
			}
			truth[seat] = status
		}
		for _, n := range nodes {
			var view struct{ Seats map[string]string }
			_, body := call(s.t, newClient(s.t), http.MethodGet, fmt.Sprintf("http://%s/v1/events/%d/seats", n.listen, roomEvent))
			if err := json.Unmarshal(body, &view); err != nil || !maps.Equal(view.Seats, truth) {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	s.t.Logf("the seat maps agreed after %v", took.Round(time.Millisecond))
	if took > 2*time.Second+busy {
		s.t.Errorf("the seat maps agreed only after %v, a map is at most 2 s old", took)
	}
}

// seatGoesRound holds a seat at one node, releases it there, and holds it at the other as soon as that is granted, to and fro.
func (s *stand) seatGoesRound(event int, one, other spot) {
	s.t.Helper()
	seat := query[string](s, `SELECT seat_code FROM bk.seat WHERE event_id = $1 AND status = 'AVAILABLE' ORDER BY seat_code LIMIT 1`, event)[0]
	body := fmt.Sprintf(`{"seats":[%q]}`, seat)
	var slowest time.Duration
	tries := 0
	customers := map[string]*counter{}
	for _, n := range []spot{one, other} {
		customers[n.listen] = &counter{t: s.t, c: newClient(s.t), base: n.listen}
		p := readPlace(s.t, 0, []byte(customers[n.listen].want(http.StatusCreated, http.MethodPost, "/_ropeline/events/show/queue", "{}").text))
		eventually(s.t, "the customer is admitted", func() bool {
			if p.AccessToken == "" {
				p = readPlace(s.t, 0, []byte(customers[n.listen].do(http.MethodGet, "/_ropeline/events/show/queue/"+p.QueueID, "").text))
			}
			return p.AccessToken != ""
		})
		customers[n.listen].token = p.AccessToken
	}
	path := fmt.Sprintf("/v1/events/%d/holds", event)
	hold := customers[one.listen].want(http.StatusCreated, http.MethodPost, path, body).HoldID
	for range 10 {
		customers[other.listen].want(http.StatusConflict, http.MethodPost, path, body)
		customers[one.listen].want(http.StatusNoContent, http.MethodDelete, "/v1/holds/"+hold, "")
		began := time.Now()
		eventually(s.t, "the seat that was released at one node is held at the other", func() bool {
			tries++
			a := customers[other.listen].do(http.MethodPost, path, body)
			hold = a.HoldID
			return a.status == http.StatusCreated
		})
		slowest = max(slowest, time.Since(began))
		one, other = other, one
	}
	s.t.Logf("event %d: a released seat was held at the other node within %v, %d tries for 10", event, slowest.Round(time.Millisecond), tries)
	if slowest > 4*time.Second {
		s.t.Errorf("event %d: a released seat was refused at the other node for %v", event, slowest)
	}
}
