package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// ErrNotGated means that the target answered a script without a token: no room stands in front of it.
var ErrNotGated = errors.New("crowd: the target is not gated")

// ErrNoRoom means that the edge did not say which room the target belongs to.
var ErrNoRoom = errors.New("crowd: the edge named no room, say which with --room")

// crowd is what all visitors share. Its fields are read-only or safe for concurrent use.
type crowd struct {
	cfg          Config
	client       client
	target       *url.URL
	room         string
	queuePath    string // of the queue API, without a trailing slash
	accessName   string // of the access cookie, without a prefix
	accessCookie string // the same with the prefix it has on this scheme

	tally tally
	notes notes
	loot  loot
	hands hands

	eventAPI string // path below /v1 of the event that buyers came for; "" = nobody buys

	joins, pollTimes, pageTimes, shopTimes *latency
}

// Run sends the crowd to cfg.Target and returns when everybody is through, when cfg.Duration has passed, or when
// ctx ends; the report covers what happened until then. It returns an error, and no report, only where there is
// nothing to report: [ErrConfig], [ErrNotGated], [ErrNoRoom], or a target that does not answer.
//
// Broken promises are no error: see [Report.Broken].
func Run(ctx context.Context, cfg Config) (Report, error) {
	target, err := cfg.complete(time.Now())
	if err != nil {
		return Report{}, err
	}
	c := &crowd{cfg: cfg, client: cfg.client, target: target, joins: newLatency(), pollTimes: newLatency(), pageTimes: newLatency(), shopTimes: newLatency()}
	if cfg.Buy {
		c.eventAPI = "/events/" + eventPath.FindStringSubmatch(target.Path)[2]
	}
	if c.client == nil {
		over := newHTTPClient(target, cfg)
		defer over.close()
		c.client = over
	}
	if err := c.learn(ctx); err != nil {
		return Report{}, err
	}

	if cfg.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Duration)
		defer cancel()
	}
	start := time.Now()
	stop := c.showProgress(start)
	visits := c.send(ctx)
	took := time.Since(start)
	stop()
	return c.judge(visits, took), nil
}

// send lets everybody live and returns what they went through.
func (c *crowd) send(ctx context.Context) []visit {
	visits := make([]visit, c.cfg.Visitors)
	var all sync.WaitGroup
	for i := range visits {
		visits[i].id = i
		rng := newSource(c.cfg.Seed, i)
		v := &visitor{crowd: c, visit: &visits[i], rng: rng, plan: newPlan(c.cfg, i, rng)}
		all.Go(func() { v.live(ctx) })
	}
	all.Wait()
	return visits
}

// learnFor is how long the target may take to answer at all.
const learnFor = 15 * time.Second

// learn knocks once, as a script, to find out which room stands in front of the target.
func (c *crowd) learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, learnFor)
	defer cancel()
	v := &visitor{crowd: c, rng: newSource(c.cfg.Seed, -1)}
	for attempt := 1; ; attempt++ {
		a, err := c.client.do(ctx, v.bare(http.MethodGet))
		if err == nil && !notNow(a) {
			return c.meet(a)
		}
		if !sleep(ctx, retryPause(a, attempt, v.rng)) {
			if err == nil {
				err = fmt.Errorf("status %d", a.status)
			}
			return fmt.Errorf("crowd: %s does not answer: %w", c.cfg.Target, err)
		}
	}
}

// meet takes the room from the answer to a knock.
func (c *crowd) meet(a answer) error {
	if a.state() == "" && a.status < 400 {
		return fmt.Errorf("%w: %s answered %d to a request without a token", ErrNotGated, c.cfg.Target, a.status)
	}
	c.room = c.cfg.Room
	if c.room == "" {
		c.room = readProblem(a.body).Room
	}
	if c.room == "" {
		return fmt.Errorf("%w: %s answered %d %s", ErrNoRoom, c.cfg.Target, a.status, readProblem(a.body).Title)
	}
	c.queuePath = "/_ropeline/events/" + url.PathEscape(c.room) + "/queue"
	c.accessName = "ropeline_" + c.room
	c.accessCookie = c.accessName
	if c.target.Scheme == "https" {
		c.accessCookie = "__Host-" + c.accessName
	}
	return nil
}
