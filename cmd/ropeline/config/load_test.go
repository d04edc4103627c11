package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// base is the smallest configuration: every key that must be given, and no other.
const base = `upstream: http://127.0.0.1:9000
rooms:
  - id: spring-tour
    rate: 100/s
    active_limit: 5000
`

// withRoom is base with more keys for its room, each a line.
func withRoom(lines ...string) string {
	return base + "    " + strings.Join(lines, "\n    ") + "\n"
}

// withTop is base with more keys at the top of the file.
func withTop(lines ...string) string { return strings.Join(lines, "\n") + "\n" + base }

func mustParse(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	cfg, err := Parse([]byte(text), environ)
	if err != nil {
		t.Fatalf("Parse: got\n%v\nwant no problem in\n%s", err, text)
	}
	return cfg
}

// problems are the lines that Parse complains in, none if it does not.
func problems(t *testing.T, text string, environ ...string) []string {
	t.Helper()
	cfg, err := Parse([]byte(text), environ)
	if err == nil {
		return nil
	}
	var p *Problems
	if cfg != nil || !errors.As(err, &p) {
		t.Fatalf("Parse: got %v and the error %T, want nil and *Problems", cfg, err)
	}
	return strings.Split(err.Error(), "\n")
}

func samples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("configs: got %v, %v, want three samples at least", files, err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "-seed.yaml") }) // of another form
}

func TestLoad_ReadsEverySample(t *testing.T) {
	for _, file := range samples(t) {
		cfg, err := Load(file, nil)
		if err != nil {
			t.Errorf("%s: got\n%v\nwant no problem", filepath.Base(file), err)
			continue
		}
		if len(cfg.Rooms) == 0 {
			t.Errorf("%s: got no room", filepath.Base(file))
		}
	}
}

// The sample names every key, and says of every default what it is.
func TestSample_NamesEveryKeyAndItsDefault(t *testing.T) {
	data, err := os.ReadFile("../../../configs/ropeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	after := 0 // the keys stand in the order of the schema
	expect := func(s setting) {
		name := s.path[len(s.path)-1] + ":"
		for i := after; i < len(lines); i++ {
			if !strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(lines[i]), "- "), name) {
				continue
			}
			comment := ""
			for j := i - 1; j > 0 && strings.HasPrefix(strings.TrimSpace(lines[j]), "#"); j-- {
				comment = lines[j] + comment
			}
			if want := "(default " + s.field.value + ")"; s.field.value != "" && !strings.Contains(comment, want) {
				t.Errorf("%s: the comment above it does not say %q", s.key(), want)
			}
			if s.field.required && !strings.Contains(comment, "Required.") {
				t.Errorf("%s: the comment above it does not say that it is required", s.key())
			}
			after = i + 1
			return
		}
		t.Errorf("%s: not in the sample, or not in the order of Config", s.key())
	}
	for _, s := range settings(schema) {
		expect(s)
	}
	for _, s := range settings(roomSchema) {
		expect(s)
	}
}

func TestParse_ReadsEveryKey(t *testing.T) {
	data, err := os.ReadFile("../../../configs/ropeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`cert_file: ""`, "cert_file: a.pem", `key_file: ""`, "key_file: b.pem",
		`keys_file: ""`, "keys_file: keys.json", "algorithm: EdDSA", "algorithm: HS256", "level: info", "level: warn",
		"format: json", "format: text", "grace: 30s", "grace: 5s", "listen: 127.0.0.1:8080", `listen: ":80"`,
		"state: open", "state: paused", `reason: ""`, "reason: The site rests", "session: 10m", "session: 20m",
		"sliding: false", "sliding: true", "session_max: 30m", "session_max: 1h30m", "window: 120s", "window: 90s",
		"token: false", "token: true", "paths: refuse", "paths: gate", "identity: cookie", "identity: header:x-customer",
		"on_outage: hold", "on_outage: open", "min: 2s", "min: 3s", "max: 15s", "max: 25s", "budget: 5000/s",
		"budget: 6000/min", "[vi, en]", "[en]", "origins: []", "origins: [https://app.example.com]",
		"hold_connections: 4", "hold_connections: 16", "work_connections: 8", "work_connections: 12", "127.0.0.1:8090", "127.0.0.1:8092",
		`jwks_url: ""`, "jwks_url: https://tickets.example.com/jwks.json", `service_token_file: ""`, "service_token_file: service.txt",
		`customer_secret_file: ""`, "customer_secret_file: customers.txt", "provider: sandbox", "provider: stripe", "127.0.0.1:8091", "127.0.0.1:8093",
		`webhook_secret_file: ""`, "webhook_secret_file: whsec.txt", `secret_key_file: ""`, "secret_key_file: sk.txt", `secret_file: ""`, "secret_file: sandbox.txt",
		"ropeline-sandbox.json\n", "payments.json\n", "brokers: []", "brokers: [127.0.0.1:9092]", `topic_prefix: ""`, "topic_prefix: shop.", "tls: false", "tls: true", "SCRAM-SHA-512\n", "PLAIN\n",
		`sasl_user: ""`, "sasl_user: shop", `sasl_password_file: ""`, "sasl_password_file: sasl.txt", "channels: [0]", "channels: [0, 5]",
		"rate: 100/s", "rate: 6/min", "limit: 5000", "limit: 70").Replace(string(data))
	got := mustParse(t, text)
	site := mustParse(t, base).Upstream
	opens, _ := time.Parse(time.RFC3339, "2026-12-10T10:00:00+07:00")
	if !got.Rooms[0].OpensAt.Equal(opens) {
		t.Errorf("opens_at: got %v, want %v", got.Rooms[0].OpensAt, opens)
	}
	got.Rooms[0].OpensAt = time.Time{}
	want := &Config{
		Listen: ":80", AdminListen: "127.0.0.1:9901", Upstream: site, ShutdownGrace: 5 * time.Second,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		TLS:            TLS{CertFile: "a.pem", KeyFile: "b.pem"}, Redis: Redis{URL: "redis://127.0.0.1:6379/0"},
		Signing: Signing{Algorithm: "HS256", KeysFile: "keys.json"}, Log: Log{Level: "warn", Format: "text"},
		Booking: Booking{Postgres: "postgres://ropeline:secret@127.0.0.1:5432/ropeline", HoldConnections: 16, WorkConnections: 12,
			Listen: "127.0.0.1:8092", PublicURL: "https://tickets.example.com", JWKSURL: "https://tickets.example.com/jwks.json",
			ServiceTokenFile: "service.txt", CustomerSecretFile: "customers.txt", Provider: "stripe",
			Sandbox: Sandbox{Listen: "127.0.0.1:8093", SecretFile: "sandbox.txt", File: "payments.json"}, Stripe: Stripe{SecretKeyFile: "sk.txt", WebhookSecretFile: "whsec.txt"},
			Kafka: Kafka{Brokers: []string{"127.0.0.1:9092"}, TopicPrefix: "shop.", TLS: true, SASLMechanism: "PLAIN", SASLUser: "shop", SASLPasswordFile: "sasl.txt"}},
		Rooms: []Room{{ID: "spring-tour", Title: "Spring Tour", Hosts: []string{"tickets.example.com"},
			Paths: []string{"/events/spring-tour/"}, PublicPaths: []string{"/events/spring-tour/poster.jpg"}, Upstream: site,
			State: "paused", Reason: "The site rests", Rate: 0.1, ActiveLimit: 70, Session: 20 * time.Minute, Sliding: true,
			SessionMax: 90 * time.Minute, ClaimWindow: 90 * time.Second, ForwardToken: true, AmbiguousPaths: "gate",
			Identity: "X-Customer", OnOutage: "open", Poll: Poll{Min: 3 * time.Second, Max: 25 * time.Second, Budget: 100},
			Channels: []int{0, 5}, Languages: []string{"en"}, CORSOrigins: []string{"https://app.example.com"}}},
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(unexported, cmp.Ignore()), cmp.Comparer(samePrefix)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParse_FillsInDefaults(t *testing.T) {
	got := mustParse(t, base)
	want := &Config{
		Listen: "127.0.0.1:8080", AdminListen: "127.0.0.1:9901", Upstream: got.Upstream, ShutdownGrace: 30 * time.Second,
		Redis: Redis{URL: "auto"}, Signing: Signing{Algorithm: "EdDSA"}, Log: Log{Level: "info", Format: "json"},
		Booking: defaultBooking,
		Rooms: []Room{{ID: "spring-tour", Title: "spring-tour", Upstream: got.Upstream, State: "open", Rate: 100,
			ActiveLimit: 5000, Session: 10 * time.Minute, SessionMax: 30 * time.Minute, ClaimWindow: 2 * time.Minute,
			AmbiguousPaths: "refuse", OnOutage: "hold",
			Poll: Poll{Min: 2 * time.Second, Max: 15 * time.Second, Budget: 5000}, Channels: []int{0}, Languages: []string{"vi", "en"}}},
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(unexported, cmp.Ignore())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Upstream.String() != "http://127.0.0.1:9000" {
		t.Errorf("upstream: got %s", got.Upstream)
	}
	// A key without a value is as good as none, and defaults are per room.
	two := mustParse(t, base+"    title:\n    poll:\n    languages:\n  - {id: other, hosts: [a.example], rate: 0, active_limit: 1, poll: {min: 4s}}\n",
		"ROPELINE_ROOMS_SPRING_TOUR_HOSTS=b.example")
	if a, b := two.Rooms[0].Poll.Min, two.Rooms[1].Poll.Min; a != 2*time.Second || b != 4*time.Second {
		t.Errorf("poll.min: got %v and %v, want 2s and 4s", a, b)
	}
}

var defaultBooking = Booking{Postgres: "auto", HoldConnections: 4, WorkConnections: 8, Listen: "127.0.0.1:8090", Provider: "sandbox",
	Sandbox: Sandbox{Listen: "127.0.0.1:8091", File: "ropeline-sandbox.json"}, Kafka: Kafka{SASLMechanism: "SCRAM-SHA-512"}}

func unexported(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && (f.Name() == "hash" || f.Name() == "notes")
}

func samePrefix(a, b netip.Prefix) bool { return a == b }

func TestLoad_NamesTheFileThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.yaml")
	cfg, err := Load(missing, nil)
	if cfg != nil || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, %v, want fs.ErrNotExist that names %s", cfg, err, missing)
	}
	var p *Problems
	if !errors.As(err, &p) {
		t.Errorf("got %T, want *Problems", err)
	}
	if _, err := Load(t.TempDir(), nil); err == nil || !strings.HasPrefix(err.Error(), "file: cannot be read: ") {
		t.Errorf("a folder: got %v", err)
	}
}

func TestLoad_RefusesLargeFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(file, []byte(base+strings.Repeat("# filler\n", MaxFile/9+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil); err == nil || err.Error() != "file: is larger than 1048576 bytes, write less" {
		t.Errorf("got %v", err)
	}
}

// Aliases may be used, and cannot blow up: neither as lists of lists nor by giving one long list to many rooms.
func TestParse_AnchorsCannotBlowUp(t *testing.T) {
	merged := mustParse(t, `upstream: http://127.0.0.1:9000
rooms:
  - &first {id: a, hosts: [a.example], rate: 1/s, active_limit: 5, session: 3m}
  - {<<: *first, id: b, hosts: [b.example]}
`)
	if b := merged.Rooms[1]; b.ID != "b" || b.Session != 3*time.Minute || b.Hosts[0] != "b.example" {
		t.Errorf("merge: got %+v", b)
	}

	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 30 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	laughs += "upstream: *a30\nrooms: [*a30, {id: x, hosts: *a30, rate: *a30, active_limit: 1}]\n"
	deep := "x: &a " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n" + base
	var names strings.Builder
	for range 5000 {
		names.WriteString("h.example,")
	}
	wide := base + "    hosts: &h [" + names.String() + "]\n" + strings.Repeat("  - {id: b, rate: 0, active_limit: 1, hosts: *h}\n", 999)
	places := withRoom("hosts: ["+numbered("h%d.example", 999)+"]", "paths: ["+numbered("/p%d", 999)+"]")
	merges := base + "    <<: &m0 {title: x}\n"
	for i := range 8 {
		next, this := string(rune('1'+i)), string(rune('0'+i))
		merges += "  - &m" + next + " {<<: [" + strings.TrimSuffix(strings.Repeat("*m"+this+",", 30), ",") + "]}\n"
	}
	itself := "upstream: http://127.0.0.1:9000\nrooms: &r\n  - *r\n  - &m {<<: *m, id: x, rate: 0, active_limit: 1}\n"
	for name, test := range map[string]struct{ text, want string }{
		"laughs": {laughs, "upstream: takes one value, not a list or keys of its own [line 32]"},
		"deep":   {deep, "x: is not a key here, "},
		"wide":   {wide, "file: holds more than 200000 values, aliases counted; write fewer"},
		"merges": {merges, "file: holds more than 200000 values, aliases counted; write fewer"},
		"itself": {itself, `rooms[0]: is not a room, each begins with "- id: NAME" [line 3]`},
		"places": {places, "rooms: hold more than 100000 pairs of host and path, write fewer"},
	} {
		got := problems(t, test.text)
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, test.want) }) {
			t.Errorf("%s: got %.300q, want %q", name, got, test.want)
		}
	}
}

func numbered(format string, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(out, ", ")
}

func TestParse_HoldsAThousandRooms(t *testing.T) {
	var text strings.Builder
	text.WriteString("upstream: http://127.0.0.1:9000\nrooms:\n")
	for i := range maxRooms {
		fmt.Fprintf(&text, "  - {id: r%d, hosts: [h%d.example], rate: 1/s, active_limit: 5}\n", i, i)
	}
	if cfg := mustParse(t, text.String()); len(cfg.Rooms) != maxRooms {
		t.Errorf("got %d rooms, want %d", len(cfg.Rooms), maxRooms)
	}
	text.WriteString("  - {id: one-more, hosts: [z.example], rate: 1/s, active_limit: 5}\n")
	if got := problems(t, text.String()); !strings.Contains(strings.Join(got, "\n"), "rooms: are more than 1000, write fewer") {
		t.Errorf("one room more: got %v", got)
	}
}
