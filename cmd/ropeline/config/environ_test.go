package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every key can be overridden, those of rooms by the room's id; the id itself is what the name is made of.
func TestEnvironment_OverridesEveryKey(t *testing.T) {
	values := map[string]string{
		"LISTEN": ":81", "ADMIN_LISTEN": "127.0.0.2:99", "TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.7", "TLS_CERT_FILE": "c.pem",
		"TLS_KEY_FILE": "k.pem", "REDIS_URL": "redis://r:6379", "UPSTREAM": "https://site.example", "SIGNING_ALGORITHM": "HS256",
		"SIGNING_KEYS_FILE": "keys.json", "LOG_LEVEL": "debug", "LOG_FORMAT": "text", "SHUTDOWN_GRACE": "7s",
		"ROOMS_SPRING_TOUR_TITLE": "Tour", "ROOMS_SPRING_TOUR_HOSTS": "a.example,b.example", "ROOMS_SPRING_TOUR_PATHS": "/x/,/y/",
		"ROOMS_SPRING_TOUR_PUBLIC_PATHS": "/x/a.css", "ROOMS_SPRING_TOUR_UPSTREAM": "http://room.example:9001",
		"ROOMS_SPRING_TOUR_OPENS_AT": "2026-12-10T10:00:00+07:00", "ROOMS_SPRING_TOUR_STATE": "paused",
		"ROOMS_SPRING_TOUR_REASON": "Rest, please", "ROOMS_SPRING_TOUR_RATE": "6/min", "ROOMS_SPRING_TOUR_ACTIVE_LIMIT": "7",
		"ROOMS_SPRING_TOUR_SESSION": "8m", "ROOMS_SPRING_TOUR_SLIDING": "true", "ROOMS_SPRING_TOUR_SESSION_MAX": "9m",
		"ROOMS_SPRING_TOUR_CLAIM_WINDOW": "11s", "ROOMS_SPRING_TOUR_FORWARD_TOKEN": "true",
		"ROOMS_SPRING_TOUR_AMBIGUOUS_PATHS": "gate", "ROOMS_SPRING_TOUR_IDENTITY": "header:X-Customer",
		"ROOMS_SPRING_TOUR_ON_OUTAGE": "open", "ROOMS_SPRING_TOUR_POLL_MIN": "3s", "ROOMS_SPRING_TOUR_POLL_MAX": "4s",
		"ROOMS_SPRING_TOUR_POLL_BUDGET": "60/min", "ROOMS_SPRING_TOUR_LANGUAGES": "en", "ROOMS_SPRING_TOUR_CHANNELS": "0,3", "ROOMS_SPRING_TOUR_CORS_ORIGINS": "https://app.example",
		"BOOKING_POSTGRES": "postgres://u:p@db.example/shop", "BOOKING_HOLD_CONNECTIONS": "6", "BOOKING_WORK_CONNECTIONS": "9",
		"BOOKING_LISTEN": "127.0.0.1:83", "BOOKING_PUBLIC_URL": "https://shop.example", "BOOKING_JWKS_URL": "https://edge.example/jwks.json",
		"BOOKING_SERVICE_TOKEN_FILE": "service", "BOOKING_CUSTOMER_SECRET_FILE": "customers", "BOOKING_PROVIDER": "stripe",
		"BOOKING_SANDBOX_LISTEN": "127.0.0.1:84", "BOOKING_SANDBOX_SECRET_FILE": "sandbox", "BOOKING_SANDBOX_FILE": "payments", "BOOKING_STRIPE_SECRET_KEY_FILE": "sk",
		"BOOKING_STRIPE_WEBHOOK_SECRET_FILE": "whsec", "BOOKING_KAFKA_BROKERS": "a.example:9092,b.example:9092",
		"BOOKING_KAFKA_TOPIC_PREFIX": "shop.", "BOOKING_KAFKA_TLS": "true", "BOOKING_KAFKA_SASL_MECHANISM": "PLAIN",
		"BOOKING_KAFKA_SASL_USER": "shop", "BOOKING_KAFKA_SASL_PASSWORD_FILE": "sasl",
	}
	for _, s := range settings(schema) {
		if values[s.variable()] == "" {
			t.Errorf("the test does not set %s", s.key())
		}
	}
	for _, s := range settings(roomSchema) {
		if values["ROOMS_SPRING_TOUR_"+s.variable()] == "" && s.key() != "id" {
			t.Errorf("the test does not set rooms.%s", s.key())
		}
	}
	var environ []string
	for name, value := range values {
		environ = append(environ, prefix+name+"="+value)
	}
	file := withTop("listen: :80", "redis: {url: embedded}") + "    poll: {min: 9s}\n    hosts: [old.example]\n"
	cfg := mustParse(t, file, environ...)
	r := cfg.Rooms[0]
	got := []any{cfg.Listen, cfg.AdminListen, cfg.TrustedProxies, cfg.TLS, cfg.Redis, cfg.Upstream, cfg.Signing, cfg.Log, cfg.ShutdownGrace, cfg.Booking,
		r.ID, r.Title, r.Hosts, r.Paths, r.PublicPaths, r.Upstream, r.OpensAt.Unix(), r.State, r.Reason, r.Rate, r.ActiveLimit, r.Session,
		r.Sliding, r.SessionMax, r.ClaimWindow, r.ForwardToken, r.AmbiguousPaths, r.Identity, r.OnOutage, r.Poll, r.Channels, r.Languages, r.CORSOrigins}
	want := []any{":81", "127.0.0.2:99", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")},
		TLS{"c.pem", "k.pem"}, Redis{"redis://r:6379"}, "https://site.example", Signing{"HS256", "keys.json"}, Log{"debug", "text"}, 7 * time.Second,
		Booking{"postgres://u:p@db.example/shop", 6, 9, "127.0.0.1:83", "https://shop.example", "https://edge.example/jwks.json", "service",
			"customers", "stripe", Sandbox{"127.0.0.1:84", "sandbox", "payments"}, Stripe{"sk", "whsec"},
			Kafka{[]string{"a.example:9092", "b.example:9092"}, "shop.", true, "PLAIN", "shop", "sasl"}},
		"spring-tour", "Tour", []string{"a.example", "b.example"}, []string{"/x/", "/y/"}, []string{"/x/a.css"}, "http://room.example:9001",
		time.Date(2026, 12, 10, 3, 0, 0, 0, time.UTC).Unix(), "paused", "Rest, please", "6/min", 7, 8 * time.Minute,
		true, 9 * time.Minute, 11 * time.Second, true, "gate", "X-Customer", "open",
		Poll{3 * time.Second, 4 * time.Second, 1}, []int{0, 3}, []string{"en"}, []string{"https://app.example"}}
	for i := range want {
		if g, w := fmt.Sprint(got[i]), fmt.Sprint(want[i]); g != w {
			t.Errorf("got %s, want %s", g, w)
		}
	}
	for _, w := range Warnings(cfg) {
		if strings.HasPrefix(w, prefix) {
			t.Errorf("got the warning %q", w)
		}
	}
}

func TestEnvironment_GivesWhatTheFileLacks(t *testing.T) {
	cfg := mustParse(t, "rooms: [{id: a, active_limit: 5}]\n", "ROPELINE_UPSTREAM=http://site.example", "ROPELINE_ROOMS_A_RATE=1/s")
	if cfg.Upstream.Host != "site.example" || cfg.Rooms[0].Rate != 1 {
		t.Errorf("got %v and %v", cfg.Upstream, cfg.Rooms[0].Rate)
	}
}

func TestEnvironment_BadValuesNameTheVariable(t *testing.T) {
	for variable, want := range map[string]string{
		"ROPELINE_ROOMS_SPRING_TOUR_RATE=100":            `rooms[0] (spring-tour).rate: "100" has no unit, write 100/s or 6000/min (0 is allowed) [from ROPELINE_ROOMS_SPRING_TOUR_RATE]`,
		"ROPELINE_ROOMS_SPRING_TOUR_CLAIM_WINDOW=5s":     `rooms[0] (spring-tour).claim_window: is 5s, allowed is 10s to 1h [from ROPELINE_ROOMS_SPRING_TOUR_CLAIM_WINDOW]`,
		"ROPELINE_ROOMS_SPRING_TOUR_HOSTS=a.example,B.c": `rooms[0] (spring-tour).hosts[1]: "B.c" has capitals, write it in lower case [from ROPELINE_ROOMS_SPRING_TOUR_HOSTS]`,
		"ROPELINE_ROOMS_SPRING_TOUR_SLIDING=1":           `rooms[0] (spring-tour).sliding: "1" is neither true nor false [from ROPELINE_ROOMS_SPRING_TOUR_SLIDING]`,
		"ROPELINE_TRUSTED_PROXIES=10.0.0.0/8,x":          `trusted_proxies[1]: "x" is neither a network nor an address, write one like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7 [from ROPELINE_TRUSTED_PROXIES]`,
		"ROPELINE_LOG_LEVEL=loud":                        `log.level: is "loud", allowed are debug, info, warn, error [from ROPELINE_LOG_LEVEL]`,
		"ROPELINE_LISTEN=a\x00b":                         `listen: "a\x00b" holds a control character, write plain text [from ROPELINE_LISTEN]`,
	} {
		if got := problems(t, withRoom("hosts: [x.example, Y.example]"), variable); !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", variable, got, want)
		}
	}
}

// A variable that names no key is a warning, since it may be another part's; those known to be are passed over.
func TestEnvironment_UnknownVariablesAreWarnings(t *testing.T) {
	cfg := mustParse(t, base, "ROPELINE_REDIS_SERVER=/usr/bin/redis-server", "ROPELINE_NPM_ROOT=/x", "ROPELINE_TEST_REDIS=y", "PATH=/bin",
		"ROPELINE_ROOMS_SPRING_TOUR_RATES=1/s", "ROPELINE_ROOMS_SUMMER_RATE=1/s", "ROPELINE_ROOMS_SPRING_TOUR_ID=x", "ROPELINE_REDIS_URL=", "ROPELINE_COLOR=red")
	const other = "names no key and is ignored, allowed are ROPELINE_<KEY> and ROPELINE_ROOMS_<ID>_<KEY>"
	want := []string{
		"ROPELINE_COLOR: " + other,
		"ROPELINE_ROOMS_SPRING_TOUR_ID: " + other,
		"ROPELINE_ROOMS_SPRING_TOUR_RATES: names no key and is ignored, did you mean ROPELINE_ROOMS_SPRING_TOUR_RATE?",
		"ROPELINE_ROOMS_SUMMER_RATE: " + other,
	}
	var got []string
	for _, w := range Warnings(cfg) {
		if strings.HasPrefix(w, prefix) {
			got = append(got, w)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if cfg.Redis.URL != "auto" {
		t.Errorf("a variable without a value: got %q, want it not set", cfg.Redis.URL)
	}
}

func TestEnvironment_RefusesANameThatMeansTwoKeys(t *testing.T) {
	file := "upstream: http://127.0.0.1:9000\nrooms:\n" +
		"  - {id: x, hosts: [x.example], rate: 0, active_limit: 1}\n" +
		"  - {id: x-public, hosts: [y.example], rate: 0, active_limit: 1}\n"
	mustParse(t, file)
	got := problems(t, file, "ROPELINE_ROOMS_X_PUBLIC_PATHS=/a")
	want := "rooms[0] (x).public_paths: and rooms[1] (x-public).paths have the same variable, give one of the rooms another id [from ROPELINE_ROOMS_X_PUBLIC_PATHS]"
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
