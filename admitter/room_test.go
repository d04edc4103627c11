package admitter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"ropeline/admitter/token"
	"ropeline/internal/redisbox"
	"ropeline/internal/redisbox/redistest"
	"ropeline/queue"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// each runs a suite on every kind of Redis and checks that it leaves no goroutine behind.
func each(t *testing.T, run func(t *testing.T, r *room)) {
	t.Helper()
	if _, ok := redisbox.Find(); ok { // shared and lasting: started before goroutines are counted
		redistest.Server(t)
		redistest.Cluster(t)
	}
	before := goleak.IgnoreCurrent()
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) { run(t, newRoom(t, rdb)) })
	goleak.VerifyNone(t, before)
}

// eventually waits for what happens by the clock of Redis or of an admitter that runs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

var roomCount atomic.Int64

// room is a room on one kind of Redis with the line of a node that runs: open, unless changed, at a rate and a limit
// above what a test needs.
type room struct {
	t         *testing.T
	rdb       redis.UniversalClient
	line      *queue.Line
	authority *token.Authority

	mu  sync.Mutex
	set Settings
}

func newRoom(t *testing.T, rdb redis.UniversalClient) *room {
	t.Helper()
	name := fmt.Sprintf("admit-%d-%d", time.Now().UnixNano(), roomCount.Add(1))
	line := queue.New(rdb, name, queue.Config{Refresh: 20 * time.Millisecond, Flush: 20 * time.Millisecond})
	if err := line.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- line.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the line: %v", err)
		}
	})
	keys, err := token.Generate(token.EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	return &room{
		t: t, rdb: rdb, line: line, authority: token.New(keys, token.Config{Now: line.Now}),
		set: Settings{Settings: queue.Settings{
			Mode: queue.Open, Rate: 1000, Limit: 1000, Claim: time.Minute, Session: time.Minute,
		}},
	}
}

func (r *room) settings() Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set
}

func (r *room) change(f func(*Settings)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.set)
}

// admitter has quick ticks, unless cfg says otherwise.
func (r *room) admitter(line Line, cfg Config) *Admitter {
	if cfg.Interval == 0 {
		cfg.Interval = 20 * time.Millisecond
	}
	return New(line, r.authority, r.settings, cfg)
}

func (r *room) key(name string) string { return "rope:{" + r.line.Room() + "}:" + name }

// join puts n visitors into the line, who can be counted on for the length of any test.
func (r *room) join(n int) []queue.Place {
	r.t.Helper()
	places := make([]queue.Place, n)
	for i := range places {
		turn, err := r.line.Join(r.t.Context(), queue.Visitor{})
		if err != nil || turn.Grant != nil {
			r.t.Fatalf("Join = %+v, %v; want a place in line", turn, err)
		}
		r.line.Report(turn)
		places[i] = turn.Place
	}
	return places
}

// joinAndGo puts n visitors into the line who are not heard of again.
func (r *room) joinAndGo(n int) []queue.Place {
	r.t.Helper()
	places := make([]queue.Place, n)
	for i := range places {
		turn, err := r.line.Join(r.t.Context(), queue.Visitor{})
		if err != nil || turn.Grant != nil {
			r.t.Fatalf("Join = %+v, %v; want a place in line", turn, err)
		}
		places[i] = turn.Place
		window := r.line.Now().UnixMilli() / 30_000
		for w := window - 1; w <= window+1; w++ {
			key := r.key("here:" + strconv.FormatInt(turn.Place.Generation, 10) + ":" + strconv.FormatInt(w, 10))
			if err := r.rdb.SetBit(r.t.Context(), key, turn.Place.Number, 0).Err(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return places
}

// waiting and active are the ids that Redis holds.
func (r *room) waiting() []string {
	return r.rdb.ZRange(context.Background(), r.key("line:general"), 0, -1).Val()
}

func (r *room) active() []string {
	return r.rdb.ZRange(context.Background(), r.key("active"), 0, -1).Val()
}

// leader is the holder of the lease, "" if there is none.
func (r *room) leader() string { return r.rdb.Get(context.Background(), r.key("lease")).Val() }

// run starts a and returns what stops it and waits.
func run(t *testing.T, a *Admitter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil once its context has ended", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// turn works through one turn of a.
func turn(t *testing.T, a *Admitter) {
	t.Helper()
	if err := a.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spy is a line that notes who was admitted, in order, and lets a test step in.
type spy struct {
	Line
	beforeAdmit func()
	afterAdmit  func(ids []string, err error) ([]string, error)

	mu       sync.Mutex
	admitted []string
}

func (s *spy) Admit(ctx context.Context, term int64, batch string, claim time.Duration, grants []queue.Grant, absent []queue.Place) ([]string, error) {
	if s.beforeAdmit != nil {
		s.beforeAdmit()
	}
	ids, err := s.Line.Admit(ctx, term, batch, claim, grants, absent)
	if err == nil {
		s.mu.Lock()
		s.admitted = append(s.admitted, ids...)
		s.mu.Unlock()
	}
	if s.afterAdmit != nil {
		return s.afterAdmit(ids, err)
	}
	return ids, err
}

func (s *spy) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.admitted)
}

func ids(places []queue.Place) []string {
	out := make([]string, len(places))
	for i, p := range places {
		out[i] = p.ID
	}
	return out
}

// sameOrder fails unless got is want, element by element.
func sameOrder(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d admitted, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("admission %d is of %s (in line as number %d), want %s", i, got[i], slices.Index(want, got[i])+1, want[i])
		}
	}
}
