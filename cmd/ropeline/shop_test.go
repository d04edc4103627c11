//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
	"ropeline/internal/redisbox/redistest"
)

var databases atomic.Int64

// newDatabase makes an empty database on the shared server.
func newDatabase(t *testing.T) string {
	t.Helper()
	server := pgtest.Server(t)
	name := fmt.Sprintf("cmd_%d_%d", os.Getpid(), databases.Add(1))
	run := func(sql string) {
		c, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE DATABASE " + name)
	return server.URLOf(name)
}

// hall has two rows of ten seats, an event behind the room show and one that anybody may hold.
const hall = `
halls:
  - {id: 1, name: Hall, sections: [{name: Stalls, rows: A..B, seats: 10, tier: standard}]}
events:
  - {id: 42, hall: 1, kind: showtime, name: Show, starts_at: 2090-01-01T20:00:00+07:00, zone: Asia/Ho_Chi_Minh, currency: VND,
     hold: 10m, checkout: 8m, max_seats: 8, holds_per_minute: 0, rooms: [show], prices: {standard: 90000}}
  - {id: 43, hall: 1, kind: showtime, name: Open, starts_at: 2090-01-01T22:00:00+07:00, zone: Asia/Ho_Chi_Minh, currency: VND,
     hold: 10m, checkout: 8m, max_seats: 8, holds_per_minute: 0, prices: {standard: 90000}}
`

// prepared migrates and seeds a database.
func prepared(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(file, []byte(hall), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"migrate"}, {"seed", "--file", file}} {
		if r := command(t, environment(), append(args, "--postgres", url)...); r.code != 0 {
			t.Fatalf("%v: exit %d, %s", args, r.code, r.errout)
		}
	}
	return url
}

// counter is an HTTP client of a shop.
type counter struct {
	t           *testing.T
	c           *http.Client
	base, token string
	key         string // customer key
}

// answer is what the API says, as far as these tests look.
type answer struct {
	status      int
	header      http.Header
	text        string
	HoldID      string   `json:"holdId"`
	Status      string   `json:"status"`
	CheckoutURL string   `json:"checkoutUrl"`
	Room        string   `json:"room"`
	Conflicts   []string `json:"conflicts"`
	Refund      struct{ Status string }
}

func (c *counter) do(method, path, body string, header ...string) answer {
	c.t.Helper()
	target := path
	if strings.HasPrefix(path, "/") {
		target = "http://" + c.base + path
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("X-Queue-Token", c.token)
	}
	if c.key != "" {
		req.Header.Set("X-Customer-Key", c.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.c.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(data)}
	_ = json.Unmarshal(bytes.ReplaceAll(data, []byte(`"status":4`), []byte(`"code4":4`)), &a) // a problem's status is a number
	c.key = cmp.Or(res.Header.Get("X-Customer-Key"), c.key)
	return a
}

// want does a request and fails the test unless it is answered with a status.
func (c *counter) want(status int, method, path, body string, header ...string) answer {
	c.t.Helper()
	a := c.do(method, path, body, header...)
	if a.status != status {
		c.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.text, status)
	}
	return a
}

// pay opens a page for a hold and pays there.
func (c *counter) pay(hold string) {
	c.t.Helper()
	page := c.want(http.StatusCreated, http.MethodPost, "/holds/"+hold+"/checkout", `{}`, "Idempotency-Key", "pay-"+hold)
	c.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a := c.do(http.MethodPost, page.CheckoutURL, "do=pay", "Content-Type", "application/x-www-form-urlencoded")
	if a.status >= 400 {
		c.t.Fatalf("pay at %s: %d %s", page.CheckoutURL, a.status, a.text)
	}
}

// becomes waits until an order has a status.
func (c *counter) becomes(hold, status string) answer {
	c.t.Helper()
	var a answer
	eventually(c.t, "the order is "+status, func() bool {
		a = c.do(http.MethodGet, "/orders/"+hold, "")
		return a.status == http.StatusOK && a.Status == status
	})
	return a
}

// bookingSection is the section booking of the tests' files.
func bookingSection(t *testing.T, postgres string, more ...string) string {
	return fmt.Sprintf("booking:\n  postgres: %q\n  sandbox: {listen: 127.0.0.1:0, file: %q}\n  %s\n", postgres,
		filepath.Join(t.TempDir(), "sandbox.json"), strings.Join(more, "\n  "))
}

// shopFile writes a configuration whose site is the booking core.
func shopFile(t *testing.T, redisURL, postgres string, more ...string) string {
	t.Helper()
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {url: %q}\nupstream: booking\nshutdown_grace: 5s\n", redisURL) +
		bookingSection(t, postgres, more...) + "rooms:\n  - {id: show, rate: 1000/s, active_limit: 1000, session: 10m}\n"
	path := filepath.Join(t.TempDir(), "ropeline.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// admitted joins the line of the room show at the address of event 42, and is let in.
func (p *process) admitted(t *testing.T) *counter {
	t.Helper()
	c := &counter{t: t, c: newClient(t), base: p.listen}
	a := c.want(http.StatusCreated, http.MethodPost, "/events/42/queue", "{}")
	c.token = readPlace(t, a.status, []byte(a.text)).AccessToken
	return c
}

func TestServe_SellsSeatsBehindTheWaitingRoom(t *testing.T) {
	t.Parallel()
	url := prepared(t, newDatabase(t))
	node := serving(t, shopFile(t, redistest.Private(t).URL(), url))
	stranger := &counter{t: t, c: newClient(t), base: node.listen}
	for _, path := range []string{"/events/42/holds", "/v1/events/42/holds", "/showtimes/42/holds"} {
		if a := stranger.want(http.StatusForbidden, http.MethodPost, path, `{"seats":["A1"]}`); a.Room != "show" || !strings.Contains(a.text, "Not admitted") {
			t.Errorf("%s without a token: %s", path, a.text)
		}
	}
	stranger.want(http.StatusOK, http.MethodGet, "/events/42/seats", "")

	c := node.admitted(t)
	hold := c.want(http.StatusCreated, http.MethodPost, "/events/42/holds", `{"seats":["A1","A2"]}`).HoldID
	if a := node.admitted(t).want(http.StatusConflict, http.MethodPost, "/events/42/holds", `{"seats":["A2","A3"]}`); len(a.Conflicts) != 1 || a.Conflicts[0] != "A2" {
		t.Errorf("the loser is told %s, want a conflict about A2", a.text)
	}
	c.pay(hold)
	c.becomes(hold, "PAID")
	c.want(http.StatusNoContent, http.MethodPost, "/events/42/queue/me/leave", "") // the session ends, the order stays
	c.want(http.StatusForbidden, http.MethodPost, "/events/42/holds", `{"seats":["A5"]}`)
	c.becomes(hold, "PAID")

	var view salesView
	if err := json.Unmarshal([]byte((&counter{t: t, c: newClient(t), base: node.admin}).want(http.StatusOK, http.MethodGet, "/admin/v1/booking", "").text), &view); err != nil {
		t.Fatal(err)
	}
	if len(view.Events) != 2 || view.Events[0].ID != 42 || view.Events[0].Sold != 2 || view.Events[0].Free != 18 || view.Error != "" {
		t.Errorf("the admin API says %+v", view)
	}
	c.want(http.StatusOK, http.MethodPost, "/bookings/"+hold+"/cancel", "")
	eventually(t, "the money is back", func() bool { return c.do(http.MethodGet, "/orders/"+hold, "").Refund.Status == "DONE" })
	if r := command(t, environment(), "audit", "--postgres", url); r.code != 0 || r.out != "audit: clean\n" {
		t.Errorf("audit: exit %d, %s%s", r.code, r.out, r.errout)
	}
	node.signal(syscall.SIGTERM)
	if code := node.ended(patience); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func TestServe_AnEventWithoutRoomsNeedsNoToken(t *testing.T) {
	t.Parallel()
	node := serving(t, shopFile(t, redistest.Private(t).URL(), prepared(t, newDatabase(t)), "public_url: https://tickets.example.com"))
	c := &counter{t: t, c: newClient(t), base: node.listen}
	hold := c.want(http.StatusCreated, http.MethodPost, "/events/43/holds", `{"seats":["B1"]}`).HoldID
	page := c.want(http.StatusCreated, http.MethodPost, "/holds/"+hold+"/checkout", `{}`, "Idempotency-Key", "k")
	c.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a := c.do(http.MethodPost, page.CheckoutURL, "do=pay", "Content-Type", "application/x-www-form-urlencoded")
	if want := "https://tickets.example.com/orders/" + hold; a.header.Get("Location") != want {
		t.Errorf("after paying: %d to %q, want to %q", a.status, a.header.Get("Location"), want)
	}
	c.becomes(hold, "PAID")
}

func TestServe_WaitsForPostgresAndAnswersWhileItIsAway(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, pgbox.Config{Fast: true})
	url := prepared(t, server.URL())
	server.Kill()
	path := shopFile(t, redistest.Private(t).URL(), url)
	admin := freeAddress(t)
	node := launch(t, path, "ROPELINE_ADMIN_LISTEN="+admin)
	node.said("waiting for Postgres")
	operator := &counter{t: t, c: newClient(t), base: admin}
	operator.want(http.StatusServiceUnavailable, http.MethodGet, "/readyz", "")
	operator.want(http.StatusOK, http.MethodGet, "/healthz", "")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.ready()
	c := node.admitted(t)
	c.want(http.StatusCreated, http.MethodPost, "/events/42/holds", `{"seats":["A1"]}`)

	server.Kill()
	a := c.want(http.StatusServiceUnavailable, http.MethodPost, "/events/42/holds", `{"seats":["A2"]}`)
	if a.header.Get("Retry-After") == "" {
		t.Errorf("while Postgres is away: %s, want Retry-After", a.text)
	}
	operator.want(http.StatusOK, http.MethodGet, "/readyz", "")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "seats are held again", func() bool {
		return c.do(http.MethodPost, "/events/42/holds", `{"seats":["A3"]}`).status == http.StatusCreated
	})
}

func TestServe_StopsWhileItWaitsForPostgres(t *testing.T) {
	t.Parallel()
	node := launch(t, shopFile(t, redistest.Private(t).URL(), "postgres://nobody@127.0.0.1:1/none"))
	node.said("waiting for Postgres")
	node.signal(syscall.SIGTERM)
	if code := node.ended(patience); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func TestServe_RefusesTablesThatAreTooOld(t *testing.T) {
	t.Parallel()
	node := launch(t, shopFile(t, redistest.Private(t).URL(), newDatabase(t)))
	if code := node.ended(patience); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	node.mu.Lock()
	defer node.mu.Unlock()
	if log := strings.Join(node.log, "\n"); !strings.Contains(log, "run ropeline migrate") {
		t.Errorf("it says %s, want how to go on", log)
	}
}

func TestServe_DoesNotOpenTheCoreWhileItRuns(t *testing.T) {
	t.Parallel()
	set := newSettings(t, redistest.Private(t).URL(), newSite(t))
	set.write(t, showRoom)
	node := serving(t, set.path)
	set.write(t, showRoom+", upstream: booking")
	if line := node.said("configuration not used, the old one stays"); !strings.Contains(line["err"].(string), "start it anew") {
		t.Errorf("the log says %v", line)
	}
	(&counter{t: t, c: newClient(t), base: node.admin}).want(http.StatusNotFound, http.MethodGet, "/admin/v1/booking", "")
}

// The core on a listener of its own verifies the token by the edge's public keys, and believes no header.
func TestBooking_AnswersOnAListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	url := prepared(t, newDatabase(t))
	rdb := redistest.Private(t).URL()
	core := freeAddress(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const room = "rooms:\n  - {id: show, rate: 1000/s, active_limit: 1000, forward_token: true}\n"
	site := fmt.Sprintf("admin_listen: 127.0.0.1:0\nredis: {url: %q}\nupstream: http://%s\n", rdb, core)
	edge := serving(t, write("edge.yaml", site+"listen: 127.0.0.1:0\n"+room))
	service := "service-token-of-the-test"
	node := launchCommand(t, "booking", write("core.yaml", site+bookingSection(t, url, "listen: "+core,
		"jwks_url: http://"+edge.listen+"/_ropeline/.well-known/jwks.json", "service_token_file: "+write("service", service))+room))
	node.ready()

	c := &counter{t: t, c: newClient(t), base: core}
	c.want(http.StatusForbidden, http.MethodPost, "/events/42/holds", `{"seats":["A1"]}`, "X-Ropeline-Room", "show", "X-Ropeline-Visitor", "me")
	c.token = edge.join(newClient(t), "show").AccessToken
	hold := c.want(http.StatusCreated, http.MethodPost, "/events/42/holds", `{"seats":["A1"]}`).HoldID
	c.base = edge.listen
	c.want(http.StatusOK, http.MethodGet, "/holds/"+hold, "")
	c.base, c.token = core, c.token[:len(c.token)-8]+"AAAAAAAA"
	c.want(http.StatusForbidden, http.MethodPost, "/events/42/holds", `{"seats":["A2"]}`)
	c.want(http.StatusUnauthorized, http.MethodPost, "/orders/"+hold+"/confirm", `{"paymentId":"01900000-0000-7000-8000-000000000000"}`)
	a := c.do(http.MethodPost, "/orders/"+hold+"/confirm", `{"paymentId":"01900000-0000-7000-8000-000000000000"}`, "Authorization", "Bearer "+service)
	if a.status == http.StatusUnauthorized || a.status >= 500 {
		t.Errorf("the service's own route: %d %s", a.status, a.text)
	}
	operator := &counter{t: t, c: newClient(t), base: node.admin}
	operator.want(http.StatusOK, http.MethodGet, "/readyz", "")
	operator.want(http.StatusOK, http.MethodGet, "/admin/v1/booking", "")
	node.signal(syscall.SIGTERM)
	if code := node.ended(patience); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func TestBooking_NeedsKeysToVerifyTokensBy(t *testing.T) {
	t.Parallel()
	path := shopFile(t, "embedded", "postgres://nobody@127.0.0.1:1/none")
	if r := command(t, environment(), "booking", "--config", path); r.code != 1 || !strings.Contains(r.errout, "booking.jwks_url: is needed") {
		t.Errorf("exit %d, %s", r.code, r.errout)
	}
}

func TestMigrateSeedAudit_SayWhatTheyDid(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	run := func(args ...string) result { return command(t, environment(), append(args, "--postgres", url)...) }
	if r := run("audit"); r.code != 1 || !strings.Contains(r.errout, "run ropeline migrate") {
		t.Errorf("audit before migrate: exit %d, %s", r.code, r.errout)
	}
	for _, want := range []string{`^migrated from version 0 to \d+\n$`, `^up to date at version \d+\n$`} {
		if r := run("migrate"); r.code != 0 || !regexp.MustCompile(want).MatchString(r.out) {
			t.Errorf("migrate: exit %d, %q %s, want %s", r.code, r.out, r.errout, want)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("halls: [{id: 1}]\nevent: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run("seed", "--file", bad); r.code != 1 || strings.Count(r.errout, "\n") < 2 || !strings.Contains(r.errout, "event: is not a key here") {
		t.Errorf("a bad seed: exit %d, %q, want a line for each problem", r.code, r.errout)
	}
	prepared(t, url)
	if r := run("audit"); r.code != 0 || r.out != "audit: clean\n" {
		t.Errorf("audit: exit %d, %q %s", r.code, r.out, r.errout)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `UPDATE bk.seat SET status = 'SOLD', booking_id = gen_random_uuid() WHERE event_id = 42 AND seat_code = 'A1'`); err != nil {
		t.Fatal(err)
	}
	if r := run("audit"); r.code != 1 || !strings.HasPrefix(r.out, "audit: ") || !strings.Contains(r.out, "A1") {
		t.Errorf("audit of a seat that nobody bought: exit %d, %q %s", r.code, r.out, r.errout)
	}
}

// A Postgres of our own is found again by the next command, also one that runs beside it.
func TestPostgres_AutoKeepsItsDataAndIsShared(t *testing.T) {
	t.Parallel()
	bin := pgtest.Bin(t)
	folder := pgtest.Dir(t)
	if _, ok := running(t.Context(), folder); ok {
		t.Fatal("a server where there is none")
	}
	server, err := pgbox.Start(t.Context(), bin, pgbox.Config{Dir: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if err := os.WriteFile(filepath.Join(folder, addressName), []byte(server.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	if url, ok := running(t.Context(), folder); !ok || url != server.URL() {
		t.Error("the server that runs there is not found")
	}
	other := pgtest.Dir(t)
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, addressName), []byte(server.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := running(t.Context(), other); ok {
		t.Error("the server of another folder is taken for this one's")
	}
	secret, err := customerSecret(folder)
	if err != nil || len(secret) < 32 {
		t.Errorf("the secret of customer keys has %d bytes, %v", len(secret), err)
	}
	if again, err := customerSecret(folder); err != nil || string(again) != string(secret) {
		t.Errorf("the secret of customer keys is not kept: %v", err)
	}
	server.Stop()
	begun := time.Now()
	if _, ok := running(t.Context(), folder); ok || time.Since(begun) > 10*time.Second {
		t.Error("a server that has ended is found")
	}
}
