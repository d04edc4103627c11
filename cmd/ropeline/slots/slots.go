package slots

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"ropeline/booking/outbox"
)

// Live tells whether a customer of a room holds seats or has a payment under way. (*booking.Core).Live is one.
type Live func(ctx context.Context, customer, room string) (bool, error)

// Leave ends a session of a room. It must be safe to repeat, and return nil for a room that is no more.
type Leave func(ctx context.Context, room string, s Session) error

// Config tunes Slots. Each field's zero value selects its default.
type Config struct {
	Wait    time.Duration         // between what ends a customer's business and the end of the session; default 60s
	Most    int                   // most sessions remembered, about 300 bytes each; default 100,000
	Now     func() time.Time      // default: time.Now
	Logger  *slog.Logger          // default: discards
	Metrics prometheus.Registerer // default: unregistered
}

// Slots gives back the slots of customers who are done. Safe for concurrent use.
type Slots struct {
	live  Live
	leave Leave
	cfg   Config

	mu    sync.Mutex
	due   map[key]*done
	order []*done       // by due time, the soonest first; those that due no longer knows are passed over
	stir  chan struct{} // holds a token when the order has become not empty

	given, kept, dropped prometheus.Counter
}

// key names a session. A renewed one has the same place.
type key struct{ room, place string }

// done is a session that ends at the time at, if its customer does nothing more.
type done struct {
	key
	customer string
	session  Session
	at       time.Time
}

// New returns Slots that hear nothing yet: see [Slots.On] and [Slots.Run].
func New(live Live, leave Leave, cfg Config) *Slots {
	if cfg.Wait <= 0 {
		cfg.Wait = time.Minute
	}
	if cfg.Most <= 0 {
		cfg.Most = 100_000
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Slots{live: live, leave: leave, cfg: cfg, due: map[key]*done{}, stir: make(chan struct{}, 1)}
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ropeline_slots_sessions_total",
		Help: "Sessions of a waiting room whose customer was done a minute ago. result: given_back, kept (a hold or a payment is under way), forgotten (too many at once).",
	}, []string{"result"})
	s.given, s.kept, s.dropped = count.WithLabelValues("given_back"), count.WithLabelValues("kept"), count.WithLabelValues("forgotten")
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(count)
	}
	return s
}

// On hears of an event. It never blocks.
func (s *Slots) On(e outbox.Event) {
	switch e.Type {
	case "BookingConfirmed", "BookingCancelled", "BookingExpired", "BookingFailed":
	default:
		return
	}
	var of struct{ Customer, Room, Session string }
	if err := json.Unmarshal(e.Payload, &of); err != nil || of.Room == "" || of.Session == "" || of.Customer == "" {
		return
	}
	session, err := ParseSession(of.Session)
	if err != nil {
		s.cfg.Logger.Warn("an event's session can't be read", "event", e.ID, "type", e.Type)
		return
	}
	s.add(&done{key: key{of.Room, session.Place.ID}, customer: of.Customer, session: session})
}

// add has a session end in a while; one that is due already ends so much later.
func (s *Slots) add(d *done) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.at = s.cfg.Now().Add(s.cfg.Wait)
	if s.due[d.key] == nil && len(s.due) >= s.cfg.Most {
		s.dropped.Inc()
		return
	}
	s.due[d.key] = d
	if s.order = append(s.order, d); len(s.order) > 2*len(s.due)+16 {
		s.tidy()
	}
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// tidy forgets what a later event has put off.
func (s *Slots) tidy() {
	kept := make([]*done, 0, len(s.due))
	for _, d := range s.order {
		if s.due[d.key] == d {
			kept = append(kept, d)
		}
	}
	s.order = kept
}

// Run gives back slots until ctx ends.
func (s *Slots) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.stir:
		}
		if wait, some := s.work(ctx); some {
			timer.Reset(wait)
		}
	}
}

// atOnce is how many sessions are ended at the same time: a crowd that buys together is done together.
const atOnce = 8

// work gives back what is due, and returns how long until the next.
func (s *Slots) work(ctx context.Context) (wait time.Duration, some bool) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	defer func() { _ = group.Wait() }() // end has no error
	for ctx.Err() == nil {
		d, wait := s.next()
		if d == nil {
			return wait, wait > 0
		}
		group.Go(func() error { s.end(ctx, d); return nil })
	}
	return 0, false
}

// next takes what is due now, or tells how long until something is; 0 if nothing is known.
func (s *Slots) next() (*done, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		d := s.order[0]
		if s.due[d.key] != d {
			s.order = s.order[1:]
			continue
		}
		if wait := d.at.Sub(s.cfg.Now()); wait > 0 {
			return nil, wait
		}
		s.order = s.order[1:]
		delete(s.due, d.key)
		return d, 0
	}
	s.order = nil
	return nil, 0
}

// end ends a session unless its customer is at something. Where that can't be found out or done, it is tried again after
// another wait, as long as the session lasts.
func (s *Slots) end(ctx context.Context, d *done) {
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	live, err := s.live(call, d.customer, d.room)
	if err == nil && live {
		s.kept.Inc()
		return
	}
	if err == nil {
		err = s.leave(call, d.room, d.session)
	}
	switch {
	case err == nil:
		s.given.Inc()
	case ctx.Err() == nil && s.cfg.Now().Before(d.session.Expires):
		s.cfg.Logger.Warn("slot not given back yet", "room", d.room, "err", err)
		s.again(d)
	}
}

// again has a session end after another wait, unless something new came of its customer meanwhile.
func (s *Slots) again(d *done) {
	s.mu.Lock()
	newer := s.due[d.key] != nil
	s.mu.Unlock()
	if !newer {
		s.add(d)
	}
}

// Waiting is how many sessions are to be given back.
func (s *Slots) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due)
}
