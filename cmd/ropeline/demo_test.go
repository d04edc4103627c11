package main

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ropeline/booking/seed"
	"ropeline/cmd/ropeline/config"
	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
)

// told is the number in a line "key: number" of a report; -1 if there is no such line.
func told(t *testing.T, out, key string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `: (\d+)$`).FindStringSubmatch(out)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDemo_SellsAConcertToTheCrowd(t *testing.T) {
	t.Parallel()
	pgtest.Bin(t)
	needRedis(t)
	r := command(t, environment(), "demo", "--duration", "15s", "--visitors", "60", "--rate", "30/s",
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if r.code != 0 || !strings.Contains(r.out, "/events/1/") || !strings.Contains(r.out, "a Postgres of our own") {
		t.Errorf("exit %d; want 0, the concert's address and what keeps its seats", r.code)
	}
	if told(t, r.out, "double-sold") != 0 || !strings.Contains(r.out, "\naudit: clean\n") {
		t.Error("the sale was not clean, or it doesn't say")
	}
	sold, held, refunded := told(t, r.out, "sold"), told(t, r.out, "held"), told(t, r.out, "refunded")
	if sold < 1 || sold+held > 60 || refunded < 0 {
		t.Errorf("sold %d, held %d, refunded %d; want some sold of 60", sold, held, refunded)
	}
	if n := told(t, r.out, "turned away with a token"); n != 0 {
		t.Errorf("%d admitted visitors were turned away", n)
	}
	if t.Failed() {
		t.Logf("it said:\n%s%s", r.out, r.errout)
	}
}

func TestDemo_WithoutPostgresIsASmallConcertSite(t *testing.T) {
	t.Parallel()
	needRedis(t)
	r := command(t, append(environment(), pgbox.PathVariable+"=/nowhere"), "demo", "--duration", "4s", "--visitors", "20",
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if r.code != 0 || !strings.Contains(r.errout, "going on without the booking core") || !strings.Contains(r.out, sitePath) {
		t.Errorf("exit %d; want 0, what is missing and the site's address", r.code)
	}
	if strings.Contains(r.out, "\nsold: ") || strings.Contains(r.out, "audit") {
		t.Error("it speaks of a sale")
	}
	if t.Failed() {
		t.Logf("it said:\n%s%s", r.out, r.errout)
	}
}

func TestDemo_TheHallFitsTheCrowd(t *testing.T) {
	for _, c := range []struct{ visitors, least, most int }{{0, 60, 60}, {1, 60, 60}, {300, 200, 220}, {1000, 666, 700}, {20_000, 13_333, 14_000}} {
		p, err := seed.Parse(saleSeed(demoFlags{visitors: c.visitors}, time.Now()))
		if err != nil {
			t.Errorf("%d visitors: %v", c.visitors, err)
			continue
		}
		if n := len(p.Halls[0].Seats); n < c.least || n > c.most {
			t.Errorf("%d seats for %d visitors, want %d to %d", n, c.visitors, c.least, c.most)
		}
		if e := p.Events[0]; e.ID != saleEvent || e.Rooms[0] != "spring-tour" {
			t.Errorf("event: %+v", e.Event)
		}
	}
}

func TestDemo_ItsFilesAreRight(t *testing.T) {
	f := demoFlags{listen: "127.0.0.1:8080", admin: "127.0.0.1:9901", rate: "20/s", activeLimit: 100}
	for name, text := range map[string][]byte{
		"with Postgres":    saleConfig(f, "postgres://ropeline:a%20b@127.0.0.1:5432/postgres?sslmode=disable"),
		"without Postgres": siteConfig(f, "127.0.0.1:9000"),
	} {
		if _, err := config.Parse(text, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDemo_BadFlagsAreSaidBeforeAnythingStarts(t *testing.T) {
	for _, f := range []demoFlags{{visitors: -1, rate: "20/s"}, {rate: "fast"}, {rate: "20/s", duration: -time.Second}} {
		if err := demo(t.Context(), f, &strings.Builder{}, &strings.Builder{}); !errors.Is(err, errUsage) {
			t.Errorf("%+v: %v, want a usage error", f, err)
		}
	}
}
