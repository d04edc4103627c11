package crowd

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/pflag"
)

// Config says who comes, to where, and what is checked. [Default] gives the values the flags have; in a
// Config made by hand a ratio of 0 is nobody and a duration of 0 is at once, unless a field says otherwise.
type Config struct {
	Target string // URL of a gated page, http or https
	Room   string // room id; empty: asked from the edge

	Visitors     int           // how many come, cheats among them; at least 1
	Arrive       time.Duration // length of the burst in which they come
	LeaveRatio   float64       // part of the visitors who leave the line (DELETE), 0 to 1
	VanishRatio  float64       // part who stop polling for a while; one in five of these never returns
	CheatRatio   float64       // part who never join and knock without a token
	ReloadRatio  float64       // part who press reload once while they wait
	TabsRatio    float64       // part who open the page in a second tab
	APIRatio     float64       // part who are API clients: place token in the path, access token in a header
	AbandonRatio float64       // part of the admitted who never end their session
	VanishFor    time.Duration // mean silence of those who vanish, exponential
	Stay         time.Duration // mean time inside, exponential
	Requests     int           // pages seen inside; at least 1 is seen
	Buy          bool          // the admitted buy seats of the event that Target is a page of, by the booking API
	GiveUp       time.Duration // a visitor stops waiting after this long; 0 = never
	Duration     time.Duration // the crowd goes home after this long; 0 = when everybody is through

	ActiveLimit    int           // the room's active limit; 0 = not checked
	Batch          int           // the room's largest admission batch: how far `ahead` may rise; at least 25 is allowed
	OrderTolerance time.Duration // how much later a lower number may be admitted; 0 selects 1s, one batch

	Connections int           // most requests at once; 0 selects 512
	Timeout     time.Duration // of one request; 0 selects 30s
	Insecure    bool          // accept any TLS certificate
	Seed        uint64        // the same seed makes the same plans; 0 selects one by the clock
	JSON        bool          // the command prints the report as JSON; Run does not look at it
	Progress    io.Writer     // live progress: one rewritten line on a terminal, else a line every 2 s; nil = none

	client client // tests put an in-memory edge here; nil = HTTP
}

// Default returns a crowd of 1,000 without a target: the values the flags of [Config.AddFlags] start with.
func Default() Config {
	return Config{
		Visitors:       1000,
		Arrive:         10 * time.Second,
		LeaveRatio:     0.1,
		VanishRatio:    0.05,
		CheatRatio:     0.02,
		ReloadRatio:    0.1,
		TabsRatio:      0.05,
		APIRatio:       0.05,
		AbandonRatio:   0.05,
		VanishFor:      20 * time.Second,
		Stay:           5 * time.Second,
		Requests:       3,
		OrderTolerance: time.Second,
		Connections:    512,
		Timeout:        30 * time.Second,
	}
}

// AddFlags registers a flag for every field that a command line sets, and sets those fields to the values of
// [Default].
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	d := Default()
	fs.StringVar(&c.Target, "target", d.Target, "URL of a gated page")
	fs.StringVar(&c.Room, "room", d.Room, "room id (default: asked from the edge)")
	fs.IntVar(&c.Visitors, "visitors", d.Visitors, "how many come, cheats among them")
	fs.DurationVar(&c.Arrive, "arrive", d.Arrive, "length of the burst in which they come")
	fs.Float64Var(&c.LeaveRatio, "leave-ratio", d.LeaveRatio, "part of the visitors who leave the line")
	fs.Float64Var(&c.VanishRatio, "vanish-ratio", d.VanishRatio, "part who stop polling and come back later, one in five never")
	fs.Float64Var(&c.CheatRatio, "cheat-ratio", d.CheatRatio, "part who knock without a token")
	fs.Float64Var(&c.ReloadRatio, "reload-ratio", d.ReloadRatio, "part who press reload while they wait")
	fs.Float64Var(&c.TabsRatio, "tabs-ratio", d.TabsRatio, "part who open a second tab")
	fs.Float64Var(&c.APIRatio, "api-ratio", d.APIRatio, "part who are API clients instead of browsers")
	fs.Float64Var(&c.AbandonRatio, "abandon-ratio", d.AbandonRatio, "part of the admitted who never end their session")
	fs.DurationVar(&c.VanishFor, "vanish-for", d.VanishFor, "mean silence of those who vanish")
	fs.DurationVar(&c.Stay, "stay", d.Stay, "mean time inside")
	fs.IntVar(&c.Requests, "requests", d.Requests, "pages seen inside")
	fs.BoolVar(&c.Buy, "buy", d.Buy, "the admitted buy seats by the booking API; the target is /events/NUMBER/")
	fs.DurationVar(&c.GiveUp, "give-up", d.GiveUp, "a visitor stops waiting after this long (0 = never)")
	fs.DurationVar(&c.Duration, "duration", d.Duration, "the crowd goes home after this long (0 = when everybody is through)")
	fs.IntVar(&c.ActiveLimit, "active-limit", d.ActiveLimit, "the room's active limit (0 = not checked)")
	fs.IntVar(&c.Batch, "batch", d.Batch, "the room's largest admission batch: how far a place may seem to fall back (25 at least)")
	fs.DurationVar(&c.OrderTolerance, "order-tolerance", d.OrderTolerance, "how much later a lower number may be admitted")
	fs.IntVar(&c.Connections, "connections", d.Connections, "most requests at once")
	fs.DurationVar(&c.Timeout, "timeout", d.Timeout, "of one request")
	fs.BoolVar(&c.Insecure, "insecure", d.Insecure, "accept any TLS certificate")
	fs.Uint64Var(&c.Seed, "seed", d.Seed, "the same seed makes the same plans (0 = by the clock)")
	fs.BoolVar(&c.JSON, "json", d.JSON, "print the report as JSON")
}

// ErrConfig means that a Config cannot be run; the message names every field that is wrong.
var ErrConfig = errors.New("crowd: bad configuration")

// complete checks c and fills in defaults. Its error wraps [ErrConfig].
func (c *Config) complete(now time.Time) (*url.URL, error) {
	var wrong []error
	target, err := url.Parse(c.Target)
	switch {
	case err != nil:
		wrong = append(wrong, fmt.Errorf("target: %w", err))
	case target.Scheme != "http" && target.Scheme != "https", target.Host == "":
		wrong = append(wrong, fmt.Errorf("target: %q is not an http or https URL", c.Target))
	}
	if err == nil && c.Buy && !eventPath.MatchString(target.Path) {
		wrong = append(wrong, fmt.Errorf("buy: the target's path names no event, as /events/1/ does"))
	}
	if c.Visitors < 1 {
		wrong = append(wrong, fmt.Errorf("visitors: %d, at least 1 is needed", c.Visitors))
	}
	for _, f := range []struct {
		name  string
		ratio float64
	}{
		{"leave-ratio", c.LeaveRatio}, {"vanish-ratio", c.VanishRatio}, {"cheat-ratio", c.CheatRatio},
		{"reload-ratio", c.ReloadRatio}, {"tabs-ratio", c.TabsRatio}, {"api-ratio", c.APIRatio},
		{"abandon-ratio", c.AbandonRatio},
	} {
		if !(f.ratio >= 0 && f.ratio <= 1) { // NaN too
			wrong = append(wrong, fmt.Errorf("%s: %v is not between 0 and 1", f.name, f.ratio))
		}
	}
	for _, f := range []struct {
		name     string
		negative bool
	}{
		{"arrive", c.Arrive < 0}, {"vanish-for", c.VanishFor < 0}, {"stay", c.Stay < 0}, {"give-up", c.GiveUp < 0},
		{"duration", c.Duration < 0}, {"order-tolerance", c.OrderTolerance < 0}, {"timeout", c.Timeout < 0},
		{"requests", c.Requests < 0}, {"active-limit", c.ActiveLimit < 0}, {"batch", c.Batch < 0},
		{"connections", c.Connections < 0},
	} {
		if f.negative {
			wrong = append(wrong, fmt.Errorf("%s: is negative", f.name))
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrConfig, errors.Join(wrong...))
	}

	d := Default()
	c.Requests = max(c.Requests, 1)
	c.Batch = max(c.Batch, 25)
	if c.OrderTolerance == 0 {
		c.OrderTolerance = d.OrderTolerance
	}
	if c.Connections == 0 {
		c.Connections = d.Connections
	}
	if c.Timeout == 0 {
		c.Timeout = d.Timeout
	}
	if c.Seed == 0 {
		c.Seed = uint64(now.UnixNano())
	}
	return target, nil
}
