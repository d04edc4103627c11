package booking_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"ropeline/booking"
	"ropeline/booking/bookingtest"
	"ropeline/internal/pgbox/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// holdOf asks for seats of event 42.
func holdOf(customer string, seats ...string) booking.HoldRequest {
	return booking.HoldRequest{Admission: booking.Admission{Customer: customer}, Event: 42, Choices: bookingtest.Choose(seats...)}
}

// mustHold holds, or ends the test.
func mustHold(t testing.TB, c *booking.Core, r booking.HoldRequest) booking.Booking {
	t.Helper()
	b, _, err := c.Hold(context.Background(), r)
	if err != nil {
		t.Fatalf("hold %v by %s: %v", r.Choices, r.Customer, err)
	}
	return b
}

// clean fails the test if the audit finds anything.
func clean(t testing.TB, c *booking.Core) {
	t.Helper()
	found, err := c.Audit(context.Background())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	for _, f := range found {
		t.Errorf("audit: %s: %s", f.Rule, f.What)
	}
}

func TestHold_TwentyAtOnceForTheSameTwoSeats(t *testing.T) {
	url := bookingtest.Database(t)
	bookingtest.Open(t, url, bookingtest.Sale{})
	c := bookingtest.Core(t, url, booking.Config{})
	for round := range 25 {
		seats := []string{bookingtest.Seat(round%10, 2*(round/10)), bookingtest.Seat(round%10, 2*(round/10)+1)}
		latch := make(chan struct{})
		var wg sync.WaitGroup
		won := make([]error, 20)
		for i := range won {
			wg.Add(1)
			go func() {
				defer wg.Done()
				<-latch
				asked := slices.Clone(seats)
				if i%2 == 1 {
					slices.Reverse(asked)
				}
				_, _, won[i] = c.Hold(context.Background(), holdOf(fmt.Sprint("c", round, "-", i), asked...))
			}()
		}
		close(latch)
		wg.Wait()
		winners := 0
		for _, err := range won {
			var taken *booking.TakenError
			switch {
			case err == nil:
				winners++
			case !errors.As(err, &taken):
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if winners != 1 {
			t.Fatalf("round %d: %d winners, want 1", round, winners)
		}
	}
	var holds, seats, split int
	err := bookingtest.Pool(t, url).QueryRow(context.Background(), `
SELECT count(DISTINCT booking_id), count(*), (SELECT count(*) FROM (SELECT booking_id FROM bk.seat WHERE status = 'HELD' GROUP BY 1 HAVING count(*) <> 2) x)
  FROM bk.seat WHERE status = 'HELD'`).Scan(&holds, &seats, &split)
	if err != nil {
		t.Fatal(err)
	}
	if holds != 25 || seats != 50 || split != 0 {
		t.Errorf("%d holds of %d seats, %d split, want 25, 50, 0", holds, seats, split)
	}
	clean(t, c)
}
