package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"ropeline/admitter"
	"ropeline/booking"
	"ropeline/booking/api"
	"ropeline/booking/gate"
	"ropeline/cmd/ropeline/slots"
	"ropeline/proxy"
	"ropeline/queue"
)

func TestCommand_HelpVersionAndUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args        string
		code        int
		out, errout string // parts of
	}{
		{"--help", 0, "Exit codes: 0", ""},
		{"", 0, "Exit codes: 0", ""},
		{"serve --help", 0, "--config", ""},
		{"check --help", 0, "--config", ""},
		{"demo --help", 0, "--active-limit", ""},
		{"crowd --help", 0, "--leave-ratio", ""},
		{"keys --help", 0, "--promote", ""},
		{"booking --help", 0, "--config", ""},
		{"migrate --help", 0, "--postgres", ""},
		{"seed --help", 0, "--file", ""},
		{"audit --help", 0, "audit: clean", ""},
		{"--version", 0, "ropeline", ""},
		{"--nonsense", 2, "", "--nonsense"},
		{"nonsense", 2, "", "nonsense"},
		{"serve", 2, "", "--config"},
		{"serve --nonsense", 2, "", "--nonsense"},
		{"serve file.yaml", 2, "", "file.yaml"},
		{"check", 2, "", "--config"},
		{"check --nonsense", 2, "", "--nonsense"},
		{"demo --visitors many", 2, "", "--visitors"},
		{"demo --visitors=-1", 2, "", "--visitors"},
		{"demo --rate fast", 2, "", "fast"},
		{"crowd --nonsense", 2, "", "--nonsense"},
		{"keys --nonsense", 2, "", "--nonsense"},
		{"booking", 2, "", "--config"},
		{"migrate", 2, "", "--postgres"},
		{"audit --config a.yaml --postgres auto", 2, "", "--postgres"},
		{"audit --postgres mysql://u:secret@h/x", 2, "", "is not an address of Postgres"},
		{"audit --postgres postgres://nobody@127.0.0.1:1/none", 1, "", "127.0.0.1"},
		{"seed --postgres auto", 2, "", "--file"},
		{"seed --postgres auto --file /nowhere/seed.yaml", 1, "", "/nowhere/seed.yaml"},
		{"keys --algorithm none", 2, "", "none"},
		{"keys --add a.json --promote a.json", 2, "", "--promote"},
		{"keys --add /nowhere/keys.json", 1, "", "/nowhere/keys.json"},
		{"keys --promote /nowhere/keys.json", 1, "", "/nowhere/keys.json"},
		{"crowd --target http://127.0.0.1:1/ --visitors 0", 2, "", "visitors"},
		{"crowd --target somewhere", 2, "", "somewhere"},
		{"serve --config /nowhere/ropeline.yaml", 1, "", "/nowhere/ropeline.yaml"},
	}
	for _, test := range tests {
		r := command(t, environment(), strings.Fields(test.args)...)
		if r.code != test.code || !strings.Contains(r.out, test.out) || !strings.Contains(r.errout, test.errout) {
			t.Errorf("ropeline %s: exit %d, want %d; out %q, want %q in it; error %q, want %q in it",
				test.args, r.code, test.code, r.out, test.out, r.errout, test.errout)
		}
		if r.code != 0 && r.out != "" {
			t.Errorf("ropeline %s: %q on standard output besides the error", test.args, r.out)
		}
	}
}

func TestCheck_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "ropeline.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("upstream: http://127.0.0.1:9000\nredis: {url: \"redis://127.0.0.1:6379/0\"}\nrooms:\n" +
		"  - {id: spring-tour, hosts: [tickets.example.com], rate: 100/s, active_limit: 10}\n")
	if r := command(t, environment(), "check", "--config", good); r.code != 0 || r.out != good+": ok, rooms: 1\n" {
		t.Errorf("a good file: %+v", r)
	}
	r := command(t, environment("ROPELINE_ROOMS_SPRING_TOUR_RATE=100"), "check", "-c", good)
	if r.code != 1 || r.out != "" || !strings.HasPrefix(r.errout, "rooms[0] (spring-tour).rate: ") || !strings.Contains(r.errout, "ROPELINE_ROOMS_SPRING_TOUR_RATE") {
		t.Errorf("a bad variable: %+v", r)
	}
	bad := write("upstream: http://127.0.0.1:9000\ncolour: blue\nrooms:\n  - {id: a, rate: 100, active_limit: 10}\n  - {id: a, rate: 1/s, active_limit: none}\n")
	r = command(t, environment(), "check", "--config", bad)
	lines := strings.Split(strings.TrimSpace(r.errout), "\n")
	if r.code != 1 || r.out != "" {
		t.Errorf("a bad file: %+v, want exit 1", r)
	}
	for _, key := range []string{"colour", "rooms[0] (a).rate", "rooms[1] (a).active_limit", "rooms[1] (a).id"} {
		found := 0
		for _, line := range lines {
			if strings.HasPrefix(line, key+": ") {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d lines begin with %q, want one:\n%s", found, key, r.errout)
		}
	}
}

func TestCheck_AcceptsTheSamples(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(samples) < 3 {
		t.Fatalf("samples: %v, %v", samples, err)
	}
	for _, sample := range samples {
		if strings.HasSuffix(sample, "-seed.yaml") {
			continue // of another form
		}
		if r := command(t, environment(), "check", "--config", sample); r.code != 0 {
			t.Errorf("%s: %+v", sample, r)
		}
	}
}

func TestDemo_RunsWithNothingInstalledAndEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		env   []string
		store string
	}{
		{"a redis-server of its own", environment(), "redis-server of our own"},
		{"in this process", append(environment(), "PATH=", "ROPELINE_REDIS_SERVER="), "in-process"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.store != "in-process" {
				needRedis(t)
			}
			r := command(t, test.env, "demo", "--duration", "5s", "--visitors", "50", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
			if r.code != 0 {
				t.Errorf("exit %d", r.code)
			}
			for _, want := range []string{test.store, "/admin/v1/rooms", "\nout of order: 0\n", "\njoined: ", "\nadmitted: ", "\nactive peak: ", "\nrefused without a token: "} {
				if !strings.Contains(r.out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if strings.Contains(r.out, "\nadmitted: 0\n") {
				t.Error("it admitted nobody")
			}
			if t.Failed() {
				t.Logf("it said:\n%s%s", r.out, r.errout)
			}
		})
	}
}

// TestAlerts_NameMetricsThatExist holds the alerts that ship with the program against it.
func TestAlerts_NameMetricsThatExist(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	newNodeMetrics(registry)
	queue.NewMetrics(registry)
	admitter.NewMetrics(registry)
	proxy.New(nil, proxy.Config{Metrics: registry})
	pool, err := booking.OpenWork(t.Context(), "postgres://nobody@127.0.0.1:1/none", 1) // it connects when first used
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	core := booking.New(pool, pool, booking.Config{Feed: true, Metrics: registry})
	api.New(core, api.Config{Metrics: registry})
	gate.New(redis.NewClient(&redis.Options{}), gate.Config{Metrics: registry})
	slots.New(core.Live, nil, slots.Config{Metrics: registry})
	described := make(chan *prometheus.Desc, 1000)
	registry.Describe(described)
	close(described)
	known := map[string]bool{}
	for d := range described {
		name, _, _ := strings.Cut(strings.TrimPrefix(d.String(), `Desc{fqName: "`), `"`)
		known[name] = true
	}
	named := regexp.MustCompile(`ropeline_[a-z_]+`).FindAllString(string(rules), -1)
	for _, name := range named {
		if !known[strings.TrimSuffix(name, "_bucket")] {
			t.Errorf("the alerts name %s, which no part of the program measures", name)
		}
	}
	if len(named) < 6 {
		t.Errorf("only %d metrics named: the test proves nothing", len(named))
	}
}
