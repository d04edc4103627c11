package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"ropeline/booking"
	"ropeline/booking/seed"
	"ropeline/cmd/ropeline/crowd"
	"ropeline/internal/pgbox"
)

// saleEvent is the concert of the demo.
const saleEvent = 1

// errNoPostgres means that there is none on this machine.
var errNoPostgres = errors.New("no Postgres found on this machine: install one, or set " + pgbox.PathVariable)

// setScene opens the sale of a concert by the booking core, or, without a Postgres, a small concert site.
func setScene(ctx context.Context, f demoFlags, complaints io.Writer) (*scene, judged, error) {
	s, err := saleScene(ctx, f)
	if err == nil {
		return s, audited, nil
	}
	if ctx.Err() != nil {
		return nil, nil, err
	}
	fmt.Fprintf(complaints, "demo: going on without the booking core, with a small concert site: %v\n", err)
	return siteScene(f)
}

// saleScene starts a Postgres in a temporary folder and puts a concert on sale.
func saleScene(ctx context.Context, f demoFlags) (*scene, error) {
	bin, ok := pgbox.Find()
	if !ok {
		return nil, errNoPostgres
	}
	server, err := pgbox.Start(ctx, bin, pgbox.Config{})
	if err != nil {
		return nil, err
	}
	if err := openSale(ctx, server.URL(), f); err != nil {
		server.Stop()
		return nil, err
	}
	return &scene{
		config: saleConfig(f, server.URL()), path: fmt.Sprintf("/events/%d/", saleEvent), buy: true, places: salePlaces,
		what: " and a Postgres of our own for the seats", close: server.Stop,
	}, nil
}

// openSale makes the tables and seeds the concert.
func openSale(ctx context.Context, url string, f demoFlags) error {
	if _, _, err := booking.Migrate(ctx, url); err != nil {
		return err
	}
	plan, err := seed.Parse(saleSeed(f, time.Now()))
	if err != nil {
		return err
	}
	pool, err := booking.OpenWork(ctx, url, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = plan.Apply(ctx, pool)
	return err
}

// saleSeed is a hall with two seats for three visitors of the crowd, who want two and a half each.
func saleSeed(f demoFlags, now time.Time) []byte {
	const letters = 26
	want := max(f.visitors*2/3, 60)
	each := max(20, (want+letters-1)/letters)
	rows := max(3, (want+each-1)/each)
	front := rows / 3
	return fmt.Appendf(nil, `
halls:
  - id: 1
    name: Riverside Hall
    sections:
      - {name: Stalls, rows: A..%c, seats: %d, tier: front}
      - {name: Stalls, rows: %c..%c, seats: %d, tier: back}
events:
  - id: %d
    hall: 1
    kind: concert
    name: Spring Tour
    starts_at: %s
    zone: Asia/Ho_Chi_Minh
    currency: VND
    hold: 2m
    checkout: 90s
    max_hold_age: 5m
    max_seats: 4
    customer_cap: 8
    holds_per_minute: 30
    redis_gate: true
    rooms: [spring-tour]
    prices: {front: 1500000, back: 800000}
`, 'A'+front-1, each, 'A'+front, 'A'+rows-1, each, saleEvent, now.AddDate(0, 1, 0).Truncate(time.Hour).Format(time.RFC3339))
}

func salePlaces(n *node) [][2]string {
	site, admin := "http://"+n.addr(), "http://"+n.adminListener.Addr().String()
	return [][2]string{
		{fmt.Sprintf("%s/v1/events/%d/seats", site, saleEvent), "the seats, open to everybody"},
		{site + "/openapi.json", "the booking API"},
		{admin + "/admin/v1/booking", "sales as JSON"},
	}
}

// auditFor is how long the audit may take at the end.
const auditFor = 30 * time.Second

// audited adds what the core's auditor finds.
func audited(ctx context.Context, n *node, r *crowd.Report) error {
	ctx, cancel := context.WithTimeout(ctx, auditFor)
	defer cancel()
	found, err := n.shop.Load().core.Audit(ctx)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if r.Sales == nil { // nobody came
		r.Sales = &crowd.Sales{}
	}
	r.Sales.Audited = true
	for _, one := range found {
		r.Sales.Findings = append(r.Sales.Findings, one.Rule+": "+one.What)
	}
	return nil
}

// saleConfig is the demo's configuration file: a room in front of everything but the booking API.
func saleConfig(f demoFlags, postgres string) []byte {
	return fmt.Appendf(nil, `
listen: %q
admin_listen: %q
redis: {url: auto}
upstream: booking
booking:
  postgres: %q
  provider: sandbox
  sandbox: {listen: "127.0.0.1:0", file: ""}
  public_url: ""
log: {level: warn, format: text}
shutdown_grace: 3s
rooms:
  - id: spring-tour
    title: Spring Tour
    rate: %s
    active_limit: %d
    session: 2m
    claim_window: 30s
`, f.listen, f.admin, postgres, f.rate, f.activeLimit)
}
