package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// shop is the smallest configuration with the booking core.
var shop = strings.Replace(base, "http://127.0.0.1:9000", "booking", 1)

func TestUpstream_BookingIsTheCoreInThisProcess(t *testing.T) {
	cfg := mustParse(t, shop)
	if !cfg.UsesBooking() || cfg.Upstream.String() != "booking://core" || cfg.Rooms[0].Upstream != cfg.Upstream {
		t.Errorf("got %v and %v, want booking://core for both", cfg.Upstream, cfg.Rooms[0].Upstream)
	}
	room := mustParse(t, withRoom("upstream: booking"))
	if !room.UsesBooking() || IsBooking(room.Upstream) || !IsBooking(room.Rooms[0].Upstream) {
		t.Errorf("got %v and %v, want only the room's to be the core", room.Upstream, room.Rooms[0].Upstream)
	}
	if mustParse(t, base).UsesBooking() || IsBooking(nil) || IsBooking(&url.URL{Scheme: "http", Host: "booking"}) {
		t.Error("a site is taken for the core")
	}
	for _, text := range []string{"booking://core", "Booking", "booking/", "booking:80"} {
		if got := problems(t, withRoom("upstream: "+text)); len(got) != 1 {
			t.Errorf("%s: got %q, want one problem", text, got)
		}
	}
}

// A booking.* value is held to its rules whether or not an upstream uses the core.
func TestBooking_RefusesBadValues(t *testing.T) {
	const postgres = "allowed are auto and postgres://user:password@host:5432/database"
	for given, want := range map[string]string{
		"postgres: mysql://secret@h/x":                   "booking.postgres: is not an address of Postgres, " + postgres,
		"postgres: 'postgres://u:secret@h:5432'":         "booking.postgres: names no database, " + postgres,
		"postgres: 'postgres:///shop'":                   "booking.postgres: names no host, " + postgres,
		"postgres: 'postgres://u:se%zzcret@h/x'":         "booking.postgres: is not an address of Postgres, " + postgres,
		"hold_connections: 0":                            "booking.hold_connections: is 0, allowed is 1 to 200",
		"work_connections: 1":                            "booking.work_connections: is 1, allowed is 2 to 200",
		"listen: 8090":                                   `booking.listen: "8090" is not an address to listen on, write host:port, like 127.0.0.1:8080`,
		"public_url: tickets.example.com":                "booking.public_url: is not the address of a site, write one like https://tickets.example.com",
		"public_url: 'https://a.example/shop'":           "booking.public_url: is more than a scheme, a host and a port, write one like https://tickets.example.com",
		"jwks_url: 'ftp://a.example/jwks.json'":          "booking.jwks_url: is not an address, write one like https://tickets.example.com/_ropeline/.well-known/jwks.json",
		"jwks_url: 'http://a.example/jwks.json'":         "booking.jwks_url: is http to another machine, where anybody on the way could change the keys; write one like",
		"provider: paypal":                               `booking.provider: is "paypal", allowed are none, sandbox, stripe`,
		"sandbox: {listen: x}":                           `booking.sandbox.listen: "x" is not an address to listen on`,
		"kafka: {brokers: [a.example]}":                  `booking.kafka.brokers[0]: "a.example" is not an address, write host:port, like 127.0.0.1:9092`,
		"kafka: {brokers: ['a.b:1', 'a.b:1']}":           `booking.kafka.brokers[1]: "a.b:1" is listed twice, the first time as brokers[0]`,
		"kafka: {topic_prefix: 'a/b'}":                   `booking.kafka.topic_prefix: "a/b" is not a prefix, allowed are`,
		"kafka: {sasl_mechanism: GSSAPI}":                `booking.kafka.sasl_mechanism: is "GSSAPI", allowed are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`,
		"kafka: {sasl_user: u}":                          "booking.kafka: has only one of sasl_user and sasl_password_file, give both or neither",
		"kafka: {tls: 'yes'}":                            `booking.kafka.tls: "yes" is text, write true or false without quotes`,
		"stripe: {key: x}":                               "booking.stripe.key: is not a key here, allowed are secret_key_file, webhook_secret_file",
		"postgress: auto":                                "booking.postgress: is not a key here, did you mean postgres?",
		"provider: stripe, stripe: {secret_key_file: k}": "booking.stripe.webhook_secret_file: is missing, provider stripe needs it",
	} {
		got := problems(t, withTop("booking: {"+given+"}"))
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
		if strings.Contains(strings.Join(got, ""), "secret@") {
			t.Errorf("%s: %q shows what may be a password", given, got)
		}
	}
	for _, fine := range []string{"postgres: 'postgresql://db.example/shop?sslmode=verify-full'", "postgres: 'postgres:///shop?host=/run/postgresql'",
		"jwks_url: 'http://localhost:8080/_ropeline/.well-known/jwks.json'", "jwks_url: 'http://[::1]:8080/jwks'", "public_url: 'http://127.0.0.1:8080'",
		"provider: none"} {
		mustParse(t, withTop("booking: {"+fine+"}"))
	}
}

func TestChannels_AreThoseOfASeat(t *testing.T) {
	if got := mustParse(t, withRoom("channels: [0, 62]")).Rooms[0].Channels; !slices.Equal(got, []int{0, 62}) {
		t.Errorf("got %v", got)
	}
	const key = "rooms[0] (spring-tour).channels"
	for given, want := range map[string]string{
		"[]":      key + ": is empty, allowed are 0 to 62; 0 is the public channel [line 6]",
		"[0, 63]": key + "[1]: is 63, allowed is 0 to 62 [line 6]",
		"[-1]":    key + "[0]: is -1, allowed is 0 to 62 [line 6]",
		"[vip]":   key + `[0]: "vip" is not a whole number`,
	} {
		if got := problems(t, withRoom("channels: "+given)); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	}
}

// The sandbox's port is forbidden to nobody who doesn't use it.
func TestSandbox_NeedsAPortOfItsOwnWhereItIsUsed(t *testing.T) {
	mustParse(t, withTop("listen: 127.0.0.1:8091"))
	mustParse(t, "listen: 127.0.0.1:8091\nbooking: {provider: none}\n"+shop)
	got := problems(t, "listen: :8091\n"+shop)
	if want := `booking.sandbox.listen: "127.0.0.1:8091" is what listen has too, give it a port of its own`; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBooking_WarnsOfWhatIsForTryingOut(t *testing.T) {
	const safe = "redis: {url: 'redis://127.0.0.1'}\nsigning: {keys_file: keys.json}\n"
	const real = "postgres: 'postgres://h/shop', public_url: 'https://a.example', provider: stripe, stripe: {secret_key_file: a, webhook_secret_file: b}"
	for given, want := range map[string]string{
		real: "",
		strings.Replace(real, "'postgres://h/shop'", "auto", 1):           "booking.postgres: auto keeps every sale in a Postgres of this process's own",
		strings.Replace(real, "provider: stripe", "provider: none", 1):    "booking.provider: none is given, so nothing can be paid",
		strings.Replace(real, "provider: stripe", "provider: sandbox", 1): "booking.provider: sandbox moves no money",
		strings.Replace(real, "'https://a.example'", "''", 1):             "booking.public_url: none is given",
	} {
		got := Warnings(mustParse(t, safe+"booking: {"+given+"}\n"+shop))
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	}
	if got := Warnings(mustParse(t, safe+base)); len(got) != 0 {
		t.Errorf("without the core: got %q, want none", got)
	}
	if got := Warnings(mustParse(t, "redis: {url: 'redis://127.0.0.1'}\nbooking: {"+real+"}\n"+shop)); len(got) != 2 || !strings.HasPrefix(got[1], "booking.customer_secret_file:") {
		t.Errorf("without keys of its own: got %q, want two warnings", got)
	}
}

// Every key of the section waits for a restart, also a password that no text shows.
func TestBooking_NeedsRestart(t *testing.T) {
	old := mustParse(t, "booking: {postgres: 'postgres://u:one@h/x'}\n"+shop)
	for given, want := range map[string]string{
		"postgres: 'postgres://u:two@h/x'":                              "booking.postgres",
		"postgres: 'postgres://u:one@h/x', kafka: {brokers: ['a.b:1']}": "booking.kafka.brokers",
		"postgres: 'postgres://u:one@h/x', sandbox: {secret_file: s}":   "booking.sandbox.secret_file",
	} {
		if got := NeedsRestart(old, mustParse(t, "booking: {"+given+"}\n"+shop)); fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("%s: got %q, want %s", given, got, want)
		}
	}
	if got := NeedsRestart(mustParse(t, base), mustParse(t, withTop("booking: {provider: none}"))); len(got) != 0 {
		t.Errorf("without the core: got %q, want none", got)
	}
	if got := Changes(old, mustParse(t, "booking: {postgres: 'postgres://u:one@h/x'}\n"+base)); !slices.Contains(got, "upstream: booking -> http://127.0.0.1:9000") {
		t.Errorf("changes: got %q", got)
	}
}
