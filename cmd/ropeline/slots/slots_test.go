package slots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ropeline/booking/outbox"
	"ropeline/queue"
)

// stand is a booking core and a waiting room that say what they are told to.
type stand struct {
	*Slots
	mu     sync.Mutex
	live   map[string]bool // by customer
	away   bool            // the core doesn't answer
	asked  int
	left   []string // place ids, in order
	leftAt []time.Duration
	began  time.Time
}

// open runs Slots in a bubble until the end of the test.
func open(t *testing.T, cfg Config) *stand {
	s := &stand{live: map[string]bool{}, began: time.Now()}
	s.Slots = New(func(_ context.Context, customer, room string) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked++; s.away || room != "show" {
			return false, errors.New("away")
		}
		return s.live[customer], nil
	}, func(_ context.Context, _ string, session Session) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left, s.leftAt = append(s.left, session.Place.ID), append(s.leftAt, time.Since(s.began))
		return nil
	}, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stand) is(customer string, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[customer] = live
}

func (s *stand) gone() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.left)
}

// event is one of a customer whose place has the customer's name.
func event(kind, customer string) outbox.Event {
	session := Session{Place: queue.Place{ID: customer, Generation: 1, Number: 7}, Expires: time.Now().Add(10 * time.Minute).Truncate(time.Second)}
	payload, _ := json.Marshal(map[string]any{"booking_id": "b", "event_id": 1, "customer": customer, "room": "show", "session": session.String()})
	return outbox.Event{Type: kind, Key: "b", Topic: "booking-events", Payload: payload}
}

func TestSlots_AreGivenBackAMinuteAfterWhatEndsACustomersBusiness(t *testing.T) {
	for _, kind := range []string{"BookingConfirmed", "BookingCancelled", "BookingExpired", "BookingFailed"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, Config{})
			s.On(event(kind, "ann"))
			time.Sleep(59 * time.Second)
			if got := s.gone(); len(got) != 0 {
				t.Errorf("%s: after 59 s %v are gone, want nobody", kind, got)
			}
			time.Sleep(time.Second)
			if got := s.gone(); !slices.Equal(got, []string{"ann"}) {
				t.Errorf("%s: after 60 s %v are gone, want ann", kind, got)
			}
		})
	}
}

func TestSlots_WhoTakesAnotherSeatStaysInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		s.On(event("BookingCancelled", "ann"))
		time.Sleep(30 * time.Second)
		s.is("ann", true)
		time.Sleep(time.Hour)
		if got := s.gone(); len(got) != 0 {
			t.Errorf("%v are gone, want nobody", got)
		}
		s.is("ann", false)
		s.On(event("BookingExpired", "ann"))
		time.Sleep(time.Minute)
		if got := s.gone(); !slices.Equal(got, []string{"ann"}) {
			t.Errorf("after the second hold %v are gone, want ann", got)
		}
	})
}

// The minute begins anew with each event: nobody is sent out a second after a hold was given up.
func TestSlots_ALaterEventPutsTheEndOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		for range 5 {
			s.On(event("BookingCancelled", "ann"))
			s.On(event("BookingExpired", "ben"))
			time.Sleep(50 * time.Second)
		}
		if got := s.gone(); len(got) != 0 {
			t.Errorf("%v are gone, want nobody", got)
		}
		time.Sleep(10 * time.Second)
		got := s.gone()
		slices.Sort(got)
		if !slices.Equal(got, []string{"ann", "ben"}) || s.leftAt[0] != 4*50*time.Second+time.Minute {
			t.Errorf("%v are gone, the first after %v", got, s.leftAt)
		}
		if s.Waiting() != 0 || s.asked != 2 {
			t.Errorf("%d wait, %d were asked about; want 0 and 2", s.Waiting(), s.asked)
		}
	})
}

func TestSlots_TryAgainWhileTheCoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		s.away = true
		s.On(event("BookingConfirmed", "ann"))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		s.mu.Lock()
		s.away = false
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if got := s.gone(); !slices.Equal(got, []string{"ann"}) {
			t.Errorf("%v are gone, want ann", got)
		}
		s.mu.Lock()
		s.away = true
		s.mu.Unlock()
		s.On(event("BookingConfirmed", "ben"))
		time.Sleep(time.Hour)
		if synctest.Wait(); s.Waiting() != 0 {
			t.Error("a session that has ended by itself is still remembered")
		}
	})
}

func TestSlots_PassOverWhatTheyCantUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		for _, e := range []outbox.Event{
			{Type: "SeatsHeld", Payload: event("SeatsHeld", "ann").Payload},
			{Type: "BookingConfirmed", Payload: json.RawMessage(`{"customer":"ann"}`)},
			{Type: "BookingConfirmed", Payload: json.RawMessage(`{"customer":"ann","room":"show","session":"x"}`)},
			{Type: "BookingConfirmed", Payload: json.RawMessage(`{`)},
			{Type: "BookingConfirmed"},
		} {
			s.On(e)
		}
		if s.Waiting() != 0 {
			t.Errorf("%d wait, want none", s.Waiting())
		}
	})
}

func TestSlots_RememberOnlySoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Most: 100})
		for round := range 50 {
			for i := range 200 {
				s.On(event("BookingCancelled", fmt.Sprint("c", i)))
			}
			s.Slots.mu.Lock()
			if n := len(s.order); n > 2*100+16 {
				t.Errorf("round %d: %d in order, want at most 216", round, n)
			}
			s.Slots.mu.Unlock()
		}
		time.Sleep(time.Minute)
		if got := s.gone(); len(got) != 100 {
			t.Errorf("%d are gone, want 100", len(got))
		}
	})
}
