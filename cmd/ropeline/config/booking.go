package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Booking is the booking core: seats, money, events.
type Booking struct {
	// Postgres is "auto" (a Postgres found here and started by us, its data in ./ropeline-data) or postgres://. Default auto.
	Postgres string `mapstructure:"postgres" default:"auto"`
	// HoldConnections are the connections for holds, 1 to 200; about two for each core of the database. Default 4.
	HoldConnections int `mapstructure:"hold_connections" default:"4"`
	// WorkConnections are the connections for everything else, 2 to 200. Default 8.
	WorkConnections int `mapstructure:"work_connections" default:"8"`
	// Listen is where the command booking answers, host:port. Default 127.0.0.1:8090.
	Listen string `mapstructure:"listen" default:"127.0.0.1:8090"`
	// PublicURL is where customers reach the shop, https://host[:port] without a path. Default: none, and a
	// payment page sends back only those whose checkout names a whole address.
	PublicURL string `mapstructure:"public_url"`
	// JWKSURL is where the command booking finds the edge's public keys. Default: those of signing.keys_file.
	JWKSURL string `mapstructure:"jwks_url"`
	// ServiceTokenFile holds the bearer token of the routes that confirm. Default: none, and they answer 403.
	ServiceTokenFile string `mapstructure:"service_token_file"`
	// CustomerSecretFile holds the secret that signs customer keys. Default: derived from the signing keys; with Postgres
	// auto one that is kept beside its data.
	CustomerSecretFile string `mapstructure:"customer_secret_file"`
	// Provider takes the money: none, sandbox or stripe. Default sandbox.
	Provider string `mapstructure:"provider" default:"sandbox"`
	// Sandbox is the provider for trying out, which we start.
	Sandbox Sandbox `mapstructure:"sandbox"`
	// Stripe is Stripe's account.
	Stripe Stripe `mapstructure:"stripe"`
	// Kafka is where events go. Without brokers they are told inside Ropeline only.
	Kafka Kafka `mapstructure:"kafka"`
}

// Sandbox is a payment provider that moves no money.
type Sandbox struct {
	Listen     string `mapstructure:"listen" default:"127.0.0.1:8091"` // host:port; default 127.0.0.1:8091
	SecretFile string `mapstructure:"secret_file"`                     // of its callbacks; default: made at each start
	// File is where it keeps its payments over a restart, "" for nowhere. Default ropeline-sandbox.json, where we are started.
	File string `mapstructure:"file" default:"ropeline-sandbox.json"`
}

// Stripe names the files with the secrets of an account.
type Stripe struct {
	SecretKeyFile     string `mapstructure:"secret_key_file"`     // required with provider stripe
	WebhookSecretFile string `mapstructure:"webhook_secret_file"` // required with provider stripe
}

// Kafka is a broker.
type Kafka struct {
	Brokers          []string `mapstructure:"brokers"`      // host:port each; default: none
	TopicPrefix      string   `mapstructure:"topic_prefix"` // before booking-events, ticket-issued, inventory-changed; default: none
	TLS              bool     `mapstructure:"tls" default:"false"`
	SASLMechanism    string   `mapstructure:"sasl_mechanism" default:"SCRAM-SHA-512"` // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	SASLUser         string   `mapstructure:"sasl_user"`                              // default: none, no SASL
	SASLPasswordFile string   `mapstructure:"sasl_password_file"`
}

// bookingWord is how a file names the booking core as an upstream.
const bookingWord = "booking"

// bookingCore is the address of the booking core inside this process, which no file can spell out.
var bookingCore = url.URL{Scheme: "booking", Host: "core"}

// IsBooking reports whether an upstream is the booking core inside this process, whose address is booking://core.
func IsBooking(upstream *url.URL) bool {
	return upstream != nil && upstream.Scheme == bookingCore.Scheme
}

// UsesBooking reports whether any upstream is the booking core.
func (c *Config) UsesBooking() bool {
	return IsBooking(c.Upstream) || slices.ContainsFunc(c.Rooms, func(r Room) bool { return IsBooking(r.Upstream) })
}

// upstreamText is an upstream as the file spells it, without a password.
func upstreamText(u *url.URL) string {
	if IsBooking(u) {
		return bookingWord
	}
	return u.Redacted()
}

// booking checks the section booking, whether or not an upstream names it.
func (c *checker) booking() {
	b := &c.cfg.Booking
	c.ifBad("booking.postgres", BadPostgres(b.Postgres))
	c.count("booking.hold_connections", b.HoldConnections, 1, 200)
	c.count("booking.work_connections", b.WorkConnections, 2, 200)
	c.listen("booking.listen", b.Listen)
	c.ifBad("booking.public_url", badPublicURL(b.PublicURL))
	c.ifBad("booking.jwks_url", badJWKSURL(b.JWKSURL))
	c.word("booking.provider", b.Provider, "none", "sandbox", "stripe")
	c.sandbox("booking.sandbox.listen", b.Sandbox.Listen)
	for _, file := range []struct{ key, path string }{
		{"booking.stripe.secret_key_file", b.Stripe.SecretKeyFile}, {"booking.stripe.webhook_secret_file", b.Stripe.WebhookSecretFile},
	} {
		if b.Provider == "stripe" && file.path == "" && c.ok("booking.provider", file.key) {
			c.add(file.key, "is missing, provider stripe needs it")
		}
	}
	c.list("booking.kafka.brokers", b.Kafka.Brokers, 100, badBroker)
	if !topicPrefix.MatchString(b.Kafka.TopicPrefix) && c.ok("booking.kafka.topic_prefix") {
		c.add("booking.kafka.topic_prefix", "%s is not a prefix, allowed are up to 100 of a-z, A-Z, 0-9, '.', '_' and '-'", quote(b.Kafka.TopicPrefix))
	}
	c.word("booking.kafka.sasl_mechanism", b.Kafka.SASLMechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	if (b.Kafka.SASLUser == "") != (b.Kafka.SASLPasswordFile == "") && c.ok("booking.kafka") {
		c.add("booking.kafka", "has only one of sasl_user and sasl_password_file, give both or neither")
	}
}

var topicPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]{0,100}$`)

// ifBad notes a message about key, if there is one.
func (c *checker) ifBad(key, message string) {
	if message != "" && c.ok(key) {
		c.add(key, "%s", message)
	}
}

// count checks that a number is in its range, ends included.
func (c *checker) count(key string, got, low, high int) {
	if c.ok(key) && (got < low || got > high) {
		c.add(key, "is %d, allowed is %d to %d", got, low, high)
	}
}

// sandbox checks where the sandbox listens. That it is beside the others matters only where it is used: its default must
// not forbid a port to who never heard of it.
func (c *checker) sandbox(key, address string) {
	c.listen(key, address)
	if c.cfg.Booking.Provider != "sandbox" || !c.cfg.UsesBooking() {
		return
	}
	for _, own := range []struct{ key, address string }{
		{"listen", c.cfg.Listen}, {"admin_listen", c.cfg.AdminListen}, {"booking.listen", c.cfg.Booking.Listen},
	} {
		if c.ok(key, own.key) && sameAddress(own.address, address) {
			c.add(key, "%s is what %s has too, give it a port of its own", quote(address), own.key)
			return
		}
	}
}

func (c *checker) channels(key string, channels []int) {
	if c.ok(key) && len(channels) == 0 {
		c.add(key, "is empty, allowed are 0 to 62; 0 is the public channel")
		return
	}
	for i, n := range channels {
		c.count(indexed(key, i), n, 0, 62)
	}
}

// BadPostgres says what is wrong with an address of booking.postgres, "" for nothing. It never repeats the address, which may hold a password.
func BadPostgres(address string) string {
	const form = "allowed are auto and postgres://user:password@host:5432/database"
	if address == "auto" {
		return ""
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql":
		return "is not an address of Postgres, " + form
	case u.Opaque != "" || u.Host == "" && u.Query().Get("host") == "":
		return "names no host, " + form
	case strings.Trim(u.Path, "/") == "":
		return "names no database, " + form
	}
	return ""
}

// badPublicURL says what is wrong with the address at which customers reach the shop.
func badPublicURL(text string) string {
	const form = "write one like https://tickets.example.com"
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !validAuthority(u) || u.User != nil:
		return "is not the address of a site, " + form
	case text != u.Scheme+"://"+u.Host:
		return "is more than a scheme, a host and a port, " + form
	}
	return ""
}

// badJWKSURL says what is wrong with the address of the edge's public keys: whoever can change them can forge tokens.
func badJWKSURL(text string) string {
	const form = "write one like https://tickets.example.com/_ropeline/.well-known/jwks.json"
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !validAuthority(u) || u.User != nil || u.Fragment != "":
		return "is not an address, " + form
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "0")):
		return "is http to another machine, where anybody on the way could change the keys; " + form
	}
	return ""
}

// badBroker says what is wrong with the address of a broker.
func badBroker(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || !validListenHost(host) || !validPort(port) || strings.Trim(port, "0") == "" {
		return "is not an address, write host:port, like 127.0.0.1:9092"
	}
	return ""
}

// bookingWarnings says what is unwise about the booking core, if it is used here.
func bookingWarnings(cfg *Config) []string {
	if !cfg.UsesBooking() {
		return nil
	}
	return BookingWarnings(cfg)
}

// BookingWarnings says what is unwise about the section booking, used or not.
func BookingWarnings(cfg *Config) []string {
	var out []string
	if cfg.Booking.Postgres == "auto" {
		out = append(out, "booking.postgres: auto keeps every sale in a Postgres of this process's own, in ./ropeline-data; for trying out only, give the address of a shared one")
	}
	switch cfg.Booking.Provider {
	case "sandbox":
		out = append(out, "booking.provider: sandbox moves no money, whoever opens its page can say that it is paid; for trying out only")
	case "none":
		out = append(out, "booking.provider: none is given, so nothing can be paid and every checkout is refused")
	}
	if cfg.Booking.PublicURL == "" && cfg.Booking.Provider != "none" {
		out = append(out, "booking.public_url: none is given, so a customer who has paid is sent back only to a whole address that the shop gives")
	}
	if cfg.Booking.CustomerSecretFile == "" && cfg.Booking.Postgres != "auto" && cfg.Booking.JWKSURL == "" && cfg.Signing.KeysFile == "" {
		out = append(out, "booking.customer_secret_file: none is given, and the signing keys it would come from are in Redis: losing them voids the keys by which customers find their orders")
	}
	return out
}
