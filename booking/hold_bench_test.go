package booking_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
)

// floor is what holds are measured against, in the same run: pgbench's own kind of transaction, BEGIN, UPDATE of one seat of so
// many by its primary key, COMMIT, each a round trip, by as many clients, per second. Where there is no pgbench, the same from Go.
func floor(b *testing.B, pool *pgxpool.Pool, clients, seats int, took time.Duration) float64 {
	b.Helper()
	if program, err := exec.LookPath("pgbench"); err == nil {
		return pgbench(b, program, pool.Config().ConnString(), clients, seats)
	}
	b.Log("no pgbench here: the floor is the same three statements from Go")
	ctx, cancel := context.WithTimeout(context.Background(), took)
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range clients {
		wg.Go(func() {
			conn, err := pool.Acquire(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Release()
			for ctx.Err() == nil {
				for _, sql := range []string{"BEGIN", fmt.Sprintf("UPDATE bench_seat SET holder = holder + 1 WHERE seat = %d", rand.IntN(seats)), "COMMIT"} {
					if _, err := conn.Conn().PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
						b.Error(err)
						return
					}
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

func pgbench(b *testing.B, program, url string, clients, seats int) float64 {
	b.Helper()
	script := filepath.Join(b.TempDir(), "floor.sql")
	text := fmt.Sprintf("\\set seat random(0, %d)\nBEGIN;\nUPDATE bench_seat SET holder = holder + 1 WHERE seat = :seat;\nCOMMIT;\n", seats-1)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.Command(program, "-n", "-c", strconv.Itoa(clients), "-t", strconv.Itoa(max(40, 3000/clients)), "-f", script, url).CombinedOutput()
	if err != nil {
		b.Fatalf("pgbench: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "tps = "); ok {
			number, _, _ := strings.Cut(rest, " ")
			tps, err := strconv.ParseFloat(number, 64)
			if err != nil {
				b.Fatal(err)
			}
			return tps
		}
	}
	b.Fatalf("pgbench says no tps:\n%s", out)
	return 0
}

// bench is a hall of 50,000 seats, or of rows of 50, on a server that writes to its disk as in production.
func bench(b *testing.B, rows int) (string, []string, *pgxpool.Pool) {
	b.Helper()
	server := pgtest.Private(b, pgbox.Config{})
	url := server.URL()
	if _, _, err := booking.Migrate(context.Background(), url); err != nil {
		b.Fatal(err)
	}
	seats := bookingtest.Open(b, url, bookingtest.Sale{Rows: rows, PerRow: 50, MaxSeats: 4, Hold: time.Hour})
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = 260
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	for _, sql := range []string{"CREATE TABLE bench_seat (seat int PRIMARY KEY, holder int NOT NULL) WITH (fillfactor = 70)",
		fmt.Sprintf("INSERT INTO bench_seat SELECT g, 0 FROM generate_series(0, %d) g", len(seats)-1), "VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := pool.Exec(context.Background(), sql); err != nil {
			b.Fatal(err)
		}
	}
	return url, seats, pool
}

// crowd calls hold from so many callers until each of n has been called once, and returns calls per second and their times.
func crowd(callers, n int, hold func(i int)) (perSecond float64, times []time.Duration) {
	var next atomic.Int64
	var wg sync.WaitGroup
	times = make([]time.Duration, n)
	began := time.Now()
	for range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				at := time.Now()
				hold(i)
				times[i] = time.Since(at)
			}
		}()
	}
	wg.Wait()
	slices.Sort(times)
	return float64(n) / time.Since(began).Seconds(), times
}

// BenchmarkHold_Winners holds one free seat after another of 50,000, each by another customer.
func BenchmarkHold_Winners(b *testing.B) {
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			url, seats, pool := bench(b, 1000)
			c := bookingtest.Core(b, url, booking.Config{})
			rand.Shuffle(len(seats), func(i, j int) { seats[i], seats[j] = seats[j], seats[i] })
			warm, n := 4000, 30000
			if callers == 1 {
				warm, n = 200, 1500
			}
			hold := func(i int) {
				if _, _, err := c.Hold(context.Background(), holdOf(fmt.Sprint("c", i), seats[i])); err != nil {
					b.Error(err)
				}
			}
			base := floor(b, pool, callers, len(seats), 2*time.Second)
			_, _ = crowd(callers, warm, func(i int) { hold(n + i) }) // connects, plans
			b.ResetTimer()
			perSecond, times := crowd(callers, n, hold)
			b.StopTimer()
			base = (base + floor(b, pool, callers, len(seats), 2*time.Second)) / 2
			report(b, perSecond, base, times)
		})
	}
}

// BenchmarkHold_Losers asks for seats of 300 that are all held by others.
func BenchmarkHold_Losers(b *testing.B) {
	url, seats, pool := bench(b, 6)
	c := bookingtest.Core(b, url, booking.Config{Feed: true})
	running(b, c)
	for i, seat := range seats {
		mustHold(b, c, holdOf(fmt.Sprint("owner", i), seat))
	}
	trusted(b, c)
	base := floor(b, pool, 256, len(seats), 2*time.Second)
	b.ResetTimer()
	perSecond, times := crowd(256, 200000, func(i int) {
		if _, _, err := c.Hold(context.Background(), holdOf("loser", seats[i%len(seats)])); err == nil {
			b.Error("a held seat was held again")
		}
	})
	b.StopTimer()
	report(b, perSecond, base, times)
}

func report(b *testing.B, perSecond, base float64, times []time.Duration) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perSecond, "holds/s")
	b.ReportMetric(base, "floor/s")
	b.ReportMetric(perSecond/base, "x_floor")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99_ms")
}

// running runs the core's workers until the test ends.
func running(tb testing.TB, c *booking.Core) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			tb.Error(err)
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
}

// trusted waits until the table in front of holds is in use.
func trusted(tb testing.TB, c *booking.Core) {
	tb.Helper()
	for range 500 {
		if c.Trusts(42) {
			return
		}
		if _, err := c.SeatMap(context.Background(), 42, false); err != nil {
			tb.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	tb.Fatal("the table in front of holds is never trusted")
}
