package config

import (
	"net/netip"
	"net/url"
	"time"
)

// Config is one configuration, every value of it checked. It must not be changed once [Load] has returned it, and is
// then safe for concurrent use.
//
// The tags say how the file spells a key, its default, and whether it must be given.
type Config struct {
	// Listen is where visitors connect, host:port; without a host, every address. Default 127.0.0.1:8080.
	Listen string `mapstructure:"listen" default:"127.0.0.1:8080"`
	// AdminListen is where metrics, health and the admin API answer, host:port. Default 127.0.0.1:9901.
	AdminListen string `mapstructure:"admin_listen" default:"127.0.0.1:9901"`
	// TrustedProxies are the peers whose X-Forwarded-* and Forwarded are believed. A bare address is a prefix of one.
	// Default: nobody.
	TrustedProxies []netip.Prefix `mapstructure:"trusted_proxies"`
	// TLS is the certificate visitors are shown. Default: plain HTTP.
	TLS TLS `mapstructure:"tls"`
	// Redis is where lines are kept.
	Redis Redis `mapstructure:"redis"`
	// Upstream receives what no room matches, and what a room without an upstream of its own admits. Scheme http or
	// https and a host; no path. Or the booking core: see [IsBooking]. Required, never nil.
	Upstream *url.URL `mapstructure:"upstream" required:"true"`
	// Signing is how access tokens are signed.
	Signing Signing `mapstructure:"signing"`
	// Log is what is logged and how.
	Log Log `mapstructure:"log"`
	// ShutdownGrace is how long requests in flight may take to finish once we are told to stop, 1s to 10m. Default 30s.
	ShutdownGrace time.Duration `mapstructure:"shutdown_grace" default:"30s"`
	// Booking is the booking core, for upstreams that are "booking" and for the command of that name.
	Booking Booking `mapstructure:"booking"`
	// Rooms are the waiting rooms in the order of the file, at least one, ids unique.
	Rooms []Room `mapstructure:"rooms"`

	hash  string   // hex SHA-256 of the file
	notes []string // what the environment said that names no key
}

// Hash is the hex SHA-256 of the file the configuration came from: two nodes with one hash read the same file.
func (c *Config) Hash() string { return c.hash }

// TLS names a certificate and its key, both PEM files. Both or neither are given.
type TLS struct {
	CertFile string `mapstructure:"cert_file"` // default: none
	KeyFile  string `mapstructure:"key_file"`  // default: none
}

// Redis says where lines are kept.
type Redis struct {
	// URL is "auto" (a redis-server found here and started by us, else in-process), "embedded" (in-process), or
	// redis:// or rediss:// with one host, several hosts separated by commas (Cluster), or ?master=NAME (Sentinel).
	// Default auto.
	URL string `mapstructure:"url" default:"auto"`
}

// Shared reports whether other processes can use the same Redis.
func (r Redis) Shared() bool { return r.URL != "auto" && r.URL != "embedded" }

// Signing says how access tokens are signed.
type Signing struct {
	Algorithm string `mapstructure:"algorithm" default:"EdDSA"` // EdDSA or HS256; default EdDSA
	KeysFile  string `mapstructure:"keys_file"`                 // a private JWK set; default: keys are made once and shared through Redis
}

// Log says what is logged and how.
type Log struct {
	Level  string `mapstructure:"level" default:"info"`  // debug, info, warn or error; default info
	Format string `mapstructure:"format" default:"json"` // json or text; default json
}

// Room is one waiting room.
type Room struct {
	// ID names the room in addresses, keys, cookies and metrics: 1 to 64 of a-z, 0-9 and '-', unique. Required.
	ID string `mapstructure:"id" required:"true"`
	// Title is what visitors read. Default: the id.
	Title string `mapstructure:"title"`
	// Hosts are the host names the room stands on: lower case, no port, no trailing dot. Default: every host.
	Hosts []string `mapstructure:"hosts"`
	// Paths are the gated prefixes, matched at segment boundaries whatever the case, written without percent encoding.
	// Default: the whole host.
	Paths []string `mapstructure:"paths"`
	// PublicPaths are never gated: compared byte for byte with what was sent, so percent-encoded where a browser
	// encodes. Each lies within the room. Default: none.
	PublicPaths []string `mapstructure:"public_paths"`
	// Upstream receives what the room admits; never nil. Default: the file's own upstream.
	Upstream *url.URL `mapstructure:"upstream"`
	// OpensAt is when the room starts to admit. Default: the zero time, open from the start.
	OpensAt time.Time `mapstructure:"opens_at"`
	// State is what the organizer says: open, paused, closed or full. Default open.
	State string `mapstructure:"state" default:"open"`
	// Reason is shown on the page while the room is not open, at most 500 characters. Default: none.
	Reason string `mapstructure:"reason"`
	// Rate is the most visitors admitted per second; 0 = nobody. Required.
	Rate Rate `mapstructure:"rate" required:"true"`
	// ActiveLimit is the most visitors active at once, 1 to 10,000,000. Required.
	ActiveLimit int `mapstructure:"active_limit" required:"true"`
	// Session is how long an admitted visitor may stay, 1s to 12h. Default 10m.
	Session time.Duration `mapstructure:"session" default:"10m"`
	// Sliding renews a session while its visitor is at work. Default false.
	Sliding bool `mapstructure:"sliding" default:"false"`
	// SessionMax is the longest a session can become by sliding or by the upstream's wish, 1s to 12h. Default 30m.
	SessionMax time.Duration `mapstructure:"session_max" default:"30m"`
	// ClaimWindow is how long an admitted visitor has to come and take the turn, 10s to 1h. Default 120s.
	ClaimWindow time.Duration `mapstructure:"claim_window" default:"120s"`
	// ForwardToken leaves the access token in the request, for a site that verifies it itself. Default false.
	ForwardToken bool `mapstructure:"forward_token" default:"false"`
	// AmbiguousPaths is what happens on the hosts of a room with paths to a path that two readers could read
	// differently: refuse (400) or gate (it counts as inside). Default refuse.
	AmbiguousPaths string `mapstructure:"ambiguous_paths" default:"refuse"`
	// Identity is the header, in canonical form, in which a trusted proxy names the customer. Default "": the browser's
	// cookie is the visitor (in the file: cookie, or header:NAME).
	Identity string `mapstructure:"identity" default:"cookie"`
	// OnOutage is what happens to new visitors while Redis is away: hold or open. Default hold.
	OnOutage string `mapstructure:"on_outage" default:"hold"`
	// Poll bounds how often a waiting visitor asks.
	Poll Poll `mapstructure:"poll"`
	// Channels are the sales channels whose seats an admitted visitor may hold, 0 to 62 (0 is the public one). Default 0.
	Channels []int `mapstructure:"channels" default:"0"`
	// Languages are those the page is offered in, vi and en; the first is for browsers that ask for neither.
	// Default vi, en.
	Languages []string `mapstructure:"languages" default:"vi,en"`
	// CORSOrigins are the origins whose scripts may use the queue API, https://host[:port]. Default: none.
	CORSOrigins []string `mapstructure:"cors_origins"`
}

// Poll bounds how often a waiting visitor asks.
type Poll struct {
	Min    time.Duration `mapstructure:"min" default:"2s"`        // near the head, at least 1s; default 2s
	Max    time.Duration `mapstructure:"max" default:"15s"`       // far back, at least Min, at most 5m; default 15s
	Budget Rate          `mapstructure:"budget" default:"5000/s"` // most polls per second of the whole room, at least 1/s; default 5000/s
}
