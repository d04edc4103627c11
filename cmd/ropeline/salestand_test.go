//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking/payment/sandbox"
	"ropeline/booking/payment/webhook"
	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
	"ropeline/internal/redisbox"
	"ropeline/internal/redisbox/redistest"
)

// Events of a sale: one behind the room show with a gate in Redis, one that anybody may hold.
const (
	roomEvent = 1
	openEvent = 2
)

// stand is what a sale runs on, each part real and of one test alone. What the nodes do is seen from outside: by HTTP, in
// the database, at the bank.
type stand struct {
	t     *testing.T
	dir   string
	pg    *pgbox.Server
	redis *redisbox.Server
	db    *pgxpool.Pool
	seats []string

	secret   string          // of the sandbox
	address  string          // of the sandbox
	bank     *sandbox.Server // where it is this test's; the node's own otherwise
	signer   *webhook.Keys
	settings string // more of the section booking
}

// newStand starts the servers and puts rows of seats on sale, rows as "A..C".
func newStand(t *testing.T, pg pgbox.Config, rows string, each int) *stand {
	t.Helper()
	s := &stand{t: t, dir: t.TempDir(), redis: redistest.Private(t), secret: webhook.NewSecret(), address: freeAddress(t)}
	s.pg = pgtest.Private(t, pg)
	plan := fmt.Sprintf("halls:\n  - {id: 1, name: Hall, sections: [{name: Stalls, rows: %s, seats: %d, tier: standard}]}\nevents:\n", rows, each)
	for id, more := range map[int]string{roomEvent: "rooms: [show], redis_gate: true, ", openEvent: ""} {
		plan += fmt.Sprintf("  - {id: %d, hall: 1, name: Show, starts_at: 2090-01-01T20:00:00+07:00, currency: VND, hold: 10m, checkout: 8m,\n"+
			"     max_seats: 8, holds_per_minute: 0, %sprices: {standard: 90000}}\n", id, more)
	}
	for _, args := range [][]string{{"migrate"}, {"seed", "--file", s.write("seed.yaml", plan)}} {
		if r := command(t, environment(), append(args, "--postgres", s.pg.URL())...); r.code != 0 {
			t.Fatalf("%v: exit %d, %s", args, r.code, r.errout)
		}
	}
	if r := command(t, environment(), "keys", "--write", s.path("keys.json")); r.code != 0 {
		t.Fatalf("keys: exit %d, %s", r.code, r.errout)
	}
	var err error
	if s.db, err = pgxpool.New(t.Context(), s.pg.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	if s.signer, err = webhook.New(s.secret); err != nil {
		t.Fatal(err)
	}
	s.seats = query[string](s, `SELECT seat_code FROM bk.seat WHERE event_id = $1`, openEvent)
	return s
}

func (s *stand) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stand) write(name, text string) string {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.path(name)
}

// openBank runs the sandbox in this test, so that it outlives the nodes. It calls back to the address callTo.
func (s *stand) openBank(callTo string) {
	s.t.Helper()
	var err error
	s.bank, err = sandbox.NewServer(sandbox.ServerConfig{
		CallbackURL: "http://" + callTo + "/v1/payments/callback/sandbox", Secret: s.secret, Tries: 1000, Backoff: 50 * time.Millisecond,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: s.bank}
	go func() { _ = server.Serve(l) }() // until Close
	s.t.Cleanup(func() { _, _ = server.Close(), s.bank.Close() })
}

// spot is where a node listens, the same each time that it is started.
type spot struct{ listen, admin, file, command string }

// newSpot writes the configuration of a node of its own; command is serve or booking.
func (s *stand) newSpot(command string) spot {
	s.t.Helper()
	p := spot{listen: freeAddress(s.t), admin: freeAddress(s.t), command: command}
	text := fmt.Sprintf("listen: %s\nadmin_listen: %s\nredis: {url: %q}\nupstream: booking\nshutdown_grace: 5s\nsigning: {keys_file: %q}\n",
		p.listen, p.admin, s.redis.URL(), s.path("keys.json"))
	text += fmt.Sprintf("booking:\n  postgres: %q\n  listen: %s\n  sandbox: {listen: %s, secret_file: %q, file: %q}\n  %s\n", s.pg.URL(),
		p.listen, s.address, s.write("secret", s.secret), s.path("sandbox.json"), s.settings)
	text += "rooms:\n  - {id: show, rate: 1000/s, active_limit: 1000, session: 10m, claim_window: 10m, forward_token: true}\n"
	p.file = s.write("node-"+strings.ReplaceAll(p.listen, ":", "-")+".yaml", text)
	return p
}

// start runs a node and returns once it serves.
func (s *stand) start(p spot) *process {
	s.t.Helper()
	node := launchCommand(s.t, p.command, p.file)
	node.ready()
	return node
}

// crash ends the node at once, as kill -9 does.
func (p *process) crash() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.ended(patience)
}

// query returns what a statement gives, one column.
func query[T any](s *stand, sql string, args ...any) []T {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), sql, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// passSQL lets the time of one hold pass: its own, its seats' and its payment pages', in the order in which locks are taken.
var passSQL = []string{
	`UPDATE bk.payment p
	    SET created_at = p.created_at - d.gone, checkout_expires_at = p.checkout_expires_at - d.gone, next_check_at = now()
	   FROM (SELECT expires_at - now() + interval '1 ms' AS gone FROM bk.booking WHERE booking_id = $1 AND status = 'HOLD') d
	  WHERE p.booking_id = $1 AND p.status = 'PENDING'`,
	`UPDATE bk.booking b
	    SET held_since = held_since - (expires_at - now() + interval '1 ms'), created_at = created_at - (expires_at - now() + interval '1 ms'),
	        expires_at = now() - interval '1 ms'
	  WHERE booking_id = $1 AND status = 'HOLD' AND expires_at > now()`,
	`UPDATE bk.seat s
	    SET hold_expires_at = b.expires_at
	   FROM bk.booking b
	  WHERE b.booking_id = $1 AND b.status = 'HOLD' AND s.event_id = b.event_id AND s.seat_code = ANY (b.items) AND s.booking_id = b.booking_id
	    AND s.status = 'HELD'`,
}

// pass lets the time of a hold pass.
func (s *stand) pass(ctx context.Context, hold uuid.UUID) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, sql := range passSQL {
			if _, err := tx.Exec(ctx, sql, hold); err != nil {
				return err
			}
		}
		return nil
	})
}

// swept waits until every node has heard of the holds whose time was made to pass, which nodes can't foresee.
func (s *stand) swept() {
	s.t.Helper()
	s.until("holds are swept", `
SELECT (SELECT count(*) FROM bk.booking WHERE status = 'HOLD' AND expires_at <= now())
     + (SELECT count(*) FROM bk.outbox WHERE NOT told)`, func() {})
}

// reconcile waits until the nodes have asked about every payment that nobody called back about.
func (s *stand) reconcile() {
	s.t.Helper()
	s.exec(`UPDATE bk.payment SET next_check_at = now(), checks = 0 WHERE status = 'PENDING'`)
	s.until("every silent payment was asked about", `SELECT count(*) FROM bk.payment WHERE status = 'PENDING' AND checks = 0`, func() {})
}

// settle lets the time of every hold pass and waits until the nodes have brought everything to its end.
func (s *stand) settle() {
	s.t.Helper()
	s.until("nothing is under way", `
SELECT (SELECT count(*) FROM bk.booking WHERE status = 'HOLD') + (SELECT count(*) FROM bk.payment WHERE status IN ('PENDING','REFUND_DUE'))
     + (SELECT count(*) FROM bk.refund WHERE status <> 'DONE') + (SELECT count(*) FROM bk.outbox)`, func() {
		for _, hold := range query[uuid.UUID](s, `SELECT booking_id FROM bk.booking WHERE status = 'HOLD' AND expires_at > now()`) {
			if err := s.pass(s.t.Context(), hold); err != nil {
				s.t.Fatal(err)
			}
		}
		s.exec(`UPDATE bk.payment SET next_check_at = now() WHERE status = 'PENDING' AND next_check_at > now() + interval '3 s'`)
		s.exec(`UPDATE bk.refund SET next_try_at = now() WHERE status IN ('DUE','SENT') AND next_try_at > now() + interval '3 s'`)
	})
}

func (s *stand) exec(sql string) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until a count is 0, doing something before each look.
func (s *stand) until(what, sql string, before func()) {
	s.t.Helper()
	last := int64(-1)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		before()
		if last = query[int64](s, sql)[0]; last == 0 {
			return
		}
	}
	s.t.Fatalf("never: %s; %d are left", what, last)
}

// audited fails the test unless ropeline audit finds nothing.
func (s *stand) audited() {
	s.t.Helper()
	if r := command(s.t, environment(), "audit", "--postgres", s.pg.URL()); r.code != 0 || r.out != "audit: clean\n" {
		s.t.Errorf("audit: exit %d, %s%s", r.code, r.out, r.errout)
	}
}
