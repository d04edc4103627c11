package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"ropeline/admitter"
	"ropeline/admitter/token"
	"ropeline/internal/redisbox"
	"ropeline/internal/redisbox/redistest"
	"ropeline/queue"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// house is a whole waiting room for tests: a Redis, a leader for each room, an edge with a listener, and a site behind
// it that says what it was asked.
type house struct {
	t        *testing.T
	cfg      houseConfig
	url      string
	edge     *Edge
	keys     *token.Keys
	tokens   *token.Authority
	sealer   *queue.Sealer
	clock    *queue.Clock
	lines    map[string]*queue.Line
	site     *showSite
	log      *logBook
	registry *prometheus.Registry
	client   *http.Client
	calls    *commandCount // of the edge's own lines
	stop     func()

	mu       *sync.Mutex
	settings map[string]queue.Settings
}

// houseConfig: every field may stay zero but rooms.
type houseConfig struct {
	rooms   []Room
	rdb     *redis.Client // default: an in-process one
	mini    *miniredis.Miniredis
	peer    *house // share the peer's Redis, keys and leaders
	quiet   bool   // the edge's lines read Redis only when refresh is called
	stale   time.Duration
	proxies []netip.Prefix
	limit   int // active limit; default 1000
	alg     string
	core    *showCore // the upstream booking://core; default: none
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

var houses atomic.Int64

// roomOn is a room on a host of its own. Its id is used by no other test: servers are shared.
func roomOn(host string) Room {
	return Room{
		Route: Route{Room: fmt.Sprintf("room-%d-%d", time.Now().UnixNano(), houses.Add(1)), Hosts: []string{host}},
		Title: "Spring Tour", Languages: []string{"en", "vi"},
		Session: 10 * time.Minute, SessionMax: 30 * time.Minute, Claim: 2 * time.Minute,
	}
}

const hall = "hall.test"

func newHouse(t *testing.T, cfg houseConfig) *house {
	t.Helper()
	h := &house{
		t: t, cfg: cfg, clock: &queue.Clock{}, lines: map[string]*queue.Line{}, log: &logBook{},
		registry: prometheus.NewPedanticRegistry(), calls: &commandCount{}, mu: &sync.Mutex{}, settings: map[string]queue.Settings{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	stops := []func(){cancel, running.Wait}
	if cfg.peer != nil {
		h.cfg.rdb, h.cfg.mini, h.keys, h.mu, h.settings = cfg.peer.cfg.rdb, cfg.peer.cfg.mini, cfg.peer.keys, cfg.peer.mu, cfg.peer.settings
	} else if cfg.rdb == nil {
		mini, err := redisbox.Embedded()
		if err != nil {
			t.Fatal(err)
		}
		h.cfg.mini, h.cfg.rdb = mini, redisbox.Client(mini.Addr())
		stops = append(stops, func() { _ = h.cfg.rdb.Close() }, mini.Close)
	}
	mine := redis.NewClient(h.cfg.rdb.Options())
	mine.AddHook(h.calls)
	stops = append(stops, func() { _ = mine.Close() })
	h.makeKeys()
	edge := Config{TrustedProxies: cfg.proxies, Logger: slog.New(slog.NewTextHandler(h.log, nil)), Metrics: h.registry}
	if cfg.core != nil {
		cfg.core.h = h
		edge.Core, edge.Local = cfg.core, map[string]http.RoundTripper{coreScheme: LocalTransport(cfg.core)}
	}
	h.edge = New(h.tokens, edge)
	h.edge.SetSealer(h.sealer)
	lineMetrics := queue.NewMetrics(h.registry)
	refresh := 20 * time.Millisecond
	if cfg.quiet { // or a slow machine's line would take itself for one that was paused, and ask Redis
		refresh = time.Hour
	}
	for i, rm := range h.cfg.rooms {
		line := queue.New(mine, rm.Route.Room, queue.Config{
			Clock: h.clock, Refresh: refresh, Flush: 40 * time.Millisecond, Metrics: lineMetrics,
			Stale: stale(cfg.stale), Logger: slog.New(slog.NewTextHandler(h.log, nil)),
		})
		h.lines[rm.Route.Room], h.cfg.rooms[i].Line = line, line
		if err := line.Open(ctx); err != nil {
			t.Fatal(err)
		}
		if !cfg.quiet {
			running.Go(func() { _ = line.Run(ctx) })
		}
		if cfg.peer == nil {
			running.Go(h.lead(ctx, h.cfg.rooms[i]))
		}
	}
	h.site = newShowSite()
	stops = append(stops, h.site.close)
	if err := h.edge.SetSite(h.cfg.rooms, h.site.url); err != nil {
		t.Fatal(err)
	}
	stops = append([]func(){h.listen()}, stops...)
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			for _, stop := range stops {
				stop()
			}
		})
	}
	t.Cleanup(h.stop)
	for _, line := range h.lines {
		h.eventually("a snapshot", func() bool { h.refresh(); return line.Snapshot() != nil })
	}
	return h
}

// stale: a slow machine must not look like a Redis that is away, unless a test wants that.
func stale(given time.Duration) time.Duration {
	if given > 0 {
		return given
	}
	return time.Minute
}

func (h *house) makeKeys() {
	if h.keys == nil {
		alg := h.cfg.alg
		if alg == "" {
			alg = "EdDSA"
		}
		keys, err := token.Generate(alg)
		if err != nil {
			h.t.Fatal(err)
		}
		h.keys = keys
	}
	h.tokens = token.New(h.keys, token.Config{Now: h.clock.Now})
	var seals []queue.SealKey
	for _, d := range h.keys.Derive("place") {
		seals = append(seals, queue.SealKey{ID: d.KeyID, Key: d.Key[:]})
	}
	sealer, err := queue.NewSealer(seals)
	if err != nil {
		h.t.Fatal(err)
	}
	h.sealer = sealer
}

// lead runs the leader of a room, on a client of its own.
func (h *house) lead(ctx context.Context, rm Room) func() {
	limit := h.cfg.limit
	if limit == 0 {
		limit = 1000
	}
	h.mu.Lock()
	h.settings[rm.Route.Room] = queue.Settings{Mode: queue.Open, Rate: 1e5, Limit: limit, Claim: rm.Claim, Session: rm.Session}
	h.mu.Unlock()
	line := queue.New(h.cfg.rdb, rm.Route.Room, queue.Config{Refresh: 50 * time.Millisecond})
	if err := line.Open(ctx); err != nil {
		h.t.Fatal(err)
	}
	boss := admitter.New(line, h.tokens, func() admitter.Settings {
		h.mu.Lock()
		defer h.mu.Unlock()
		return admitter.Settings{Settings: h.settings[rm.Route.Room], SignAtClaim: rm.Identity != ""}
	}, admitter.Config{Interval: 20 * time.Millisecond})
	return func() {
		var both sync.WaitGroup
		both.Go(func() { _ = line.Run(ctx) })
		both.Go(func() { _ = boss.Run(ctx) })
		both.Wait()
	}
}

// listen opens the edge's listener and returns what closes it.
func (h *house) listen() func() {
	server, err := NewServer(h.edge, ServerConfig{Logger: slog.New(slog.NewTextHandler(h.log, nil))})
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "http://" + l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	h.client = &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = h.edge.CloseUpgraded(ctx)
		_ = server.Shutdown(ctx)
		if err := <-served; err != nil {
			h.t.Errorf("serve: %v", err)
		}
		h.edge.up.proxy.Transport.(*http.Transport).CloseIdleConnections()
	}
}

// room is the id of the first room, line its line.
func (h *house) room() string      { return h.cfg.rooms[0].Route.Room }
func (h *house) line() *queue.Line { return h.lines[h.room()] }

// refresh has quiet lines read Redis.
func (h *house) refresh() {
	if h.cfg.quiet {
		for _, line := range h.lines {
			if err := line.Open(context.Background()); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// set changes what the organizer wants of the first room, and waits until the edge knows it.
func (h *house) set(change func(*queue.Settings)) {
	h.t.Helper()
	h.mu.Lock()
	s := h.settings[h.room()]
	change(&s)
	h.settings[h.room()] = s
	h.mu.Unlock()
	opens := int64(0)
	if !s.OpensAt.IsZero() {
		opens = s.OpensAt.UnixMilli()
	}
	h.eventually("the new settings", func() bool {
		h.refresh()
		got := h.line().Snapshot()
		return got.Mode == s.Mode && got.Rate == s.Rate && got.Limit == s.Limit && got.OpensAt == opens && got.Reason == s.Reason
	})
}

// crowded lets nobody in, without being paused.
func (h *house) crowded() { h.set(func(s *queue.Settings) { s.Limit = 0 }) }

func (h *house) roomy() { h.set(func(s *queue.Settings) { s.Limit = 1000 }) }

// pass moves Redis's clock, in steps that a leader sees, and waits until the edge has read it.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	for ; d > 8*time.Second; d -= 8 * time.Second {
		h.step(8 * time.Second)
	}
	h.step(d)
}

func (h *house) step(d time.Duration) {
	h.t.Helper()
	at := h.clock.Now().Add(d)
	h.cfg.mini.SetTime(at)
	h.eventually("the time to pass", func() bool {
		h.refresh()
		s := h.line().Snapshot()
		return !h.clock.Now().Before(at.Add(-time.Millisecond)) && !time.UnixMilli(s.At).Before(at.Add(-time.Millisecond))
	})
}

func (h *house) eventually(what string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain for %s\n%s", what, h.log.text())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// scripts counts the edge's calls of one operation in Redis.
func (h *house) scripts(op string) int {
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "ropeline_queue_redis_call_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == op {
				return int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// commandCount counts every command that goes to Redis through a client.
type commandCount struct{ n atomic.Int64 }

func (c *commandCount) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commandCount) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *commandCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

type logBook struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// showSite is the site behind the edge. It answers with what it was asked, as JSON; a query parameter "h.NAME=VALUE" has it
// answer with that header.
type showSite struct {
	url   *url.URL
	asked atomic.Int64
	close func()
}

type seen struct {
	Method, Target, Host, Body string
	Header                     http.Header
}

func newShowSite() *showSite {
	s := &showSite{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(s.serve)}
	go func() { _ = server.Serve(l) }()
	s.url = &url.URL{Scheme: "http", Host: l.Addr().String()}
	s.close = func() { _ = server.Close() }
	return s
}

func (s *showSite) serve(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	for name, values := range r.URL.Query() {
		if name, ok := strings.CutPrefix(name, "h."); ok {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
	}
	if strings.HasSuffix(r.URL.Path, "/events") {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: hello\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	body, _ := io.ReadAll(r.Body)
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(seen{Method: r.Method, Target: r.RequestURI, Host: r.Host, Body: string(body), Header: r.Header})
}

// browser keeps the cookies that it is given, and sends each only where its path says.
type browser struct {
	h       *house
	host    string
	cookies map[string]*http.Cookie
	header  http.Header // sent with each request
}

func (h *house) browser() *browser {
	return &browser{h: h, host: h.cfg.rooms[0].Hosts[0], cookies: map[string]*http.Cookie{}, header: http.Header{}}
}

// reply is an answer, read to its end.
type reply struct {
	*http.Response
	t    *testing.T
	body string
}

// do sends a request; headers come as "Name: value".
func (b *browser) do(method, target, body string, headers ...string) *reply {
	b.h.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, b.h.url+target, in)
	if err != nil {
		b.h.t.Fatal(err)
	}
	r.Host = b.host
	for _, c := range b.cookies {
		if strings.HasPrefix(target, c.Path) {
			r.Header.Add("Cookie", c.Name+"="+c.Value)
		}
	}
	for name, values := range b.header {
		r.Header[name] = values
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	res, err := b.h.client.Do(r)
	if err != nil {
		b.h.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		b.h.t.Fatal(err)
	}
	for _, c := range res.Cookies() {
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return &reply{Response: res, t: b.h.t, body: string(all)}
}

// open navigates.
func (b *browser) open(target string, headers ...string) *reply {
	b.h.t.Helper()
	return b.do("GET", target, "", append(headers, "Accept: text/html,*/*", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none")...)
}

func (b *browser) api(rest string) string { return "/_ropeline/events/" + b.h.room() + rest }

func (b *browser) join(headers ...string) *reply {
	b.h.t.Helper()
	return b.do("POST", b.api("/queue"), "{}", append(headers, "Content-Type: application/json")...)
}

func (b *browser) poll(id string) *reply {
	b.h.t.Helper()
	return b.do("GET", b.api("/queue/"+id), "")
}

// enter joins and is admitted at once; it returns the access token.
func (b *browser) enter(headers ...string) placeAnswer {
	b.h.t.Helper()
	a := b.join(headers...).place(201)
	if a.State != "admitted" || a.AccessToken == "" {
		b.h.t.Fatalf("join: %+v, want to be admitted at once", a)
	}
	return a
}

func (b *browser) accessCookie() string {
	for name, c := range b.cookies {
		if strings.HasSuffix(name, accessCookie(b.h.room())) {
			return c.Value
		}
	}
	return ""
}

func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.StatusCode != status {
		r.t.Fatalf("%s %s: got %d, want %d\n%s", r.Request.Method, r.Request.URL.Path, r.StatusCode, status, r.body)
	}
	return r
}

// place reads the answer to a join or poll.
func (r *reply) place(status int) placeAnswer {
	r.t.Helper()
	r.want(status)
	var a placeAnswer
	r.json(&a)
	return a
}

// problem wants a problem with this status and slug.
func (r *reply) problem(status int, slug string) problem {
	r.t.Helper()
	r.want(status)
	var p problem
	r.json(&p)
	if p.Type != "urn:ropeline:"+slug || p.Status != status || p.Title == "" || r.Header.Get("Content-Type") != "application/problem+json" {
		r.t.Fatalf("got %s %q, want problem %s", r.Header.Get("Content-Type"), r.body, slug)
	}
	if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get(stateHeader) == "" {
		r.t.Fatalf("problem %s: headers %v, want no-store and %s", slug, r.Header, stateHeader)
	}
	return p
}

// seen is what the site saw; it fails the test if the answer is not the site's.
func (r *reply) seen() seen {
	r.t.Helper()
	r.want(200)
	if r.Header.Get(stateHeader) != "" {
		r.t.Fatalf("got our own answer, want the site's\n%.200s", r.body)
	}
	var s seen
	r.json(&s)
	return s
}

// parked wants the queue page.
func (r *reply) parked() *reply {
	r.t.Helper()
	r.want(200)
	if r.Header.Get(stateHeader) != "queue" || !strings.Contains(r.body, "<!doctype html>") && !strings.Contains(r.body, "<!DOCTYPE html>") {
		r.t.Fatalf("got %v %.100q, want the queue page", r.Header, r.body)
	}
	return r
}

func (r *reply) json(to any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.body), to); err != nil {
		r.t.Fatalf("%v in %.200q", err, r.body)
	}
}

func (r *reply) cookie(name string) *http.Cookie {
	for _, c := range r.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// onBoth runs a test with an in-process Redis and with a real one.
func onBoth(t *testing.T, run func(t *testing.T, rdb *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) { run(t, nil) })
	t.Run("redis", func(t *testing.T) {
		rdb := redistest.Server(t).Client()
		t.Cleanup(func() { _ = rdb.Close() })
		run(t, rdb)
	})
}

func TestEdge_PublicPathsAreComparedByteForByte(t *testing.T) {
	rm := roomOn(hall)
	rm.PublicPaths = []string{"/poster.jpg", "/a%20b"}
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	h.crowded()
	b := h.browser()
	for target, public := range map[string]bool{
		"/poster.jpg": true, "/poster.jpg?v=1": true, "/a%20b": true,
		"/Poster.jpg": false, "/poster%2ejpg": false, "/poster.jpg/": false, "/./poster.jpg": false, "/poster.jpg;x": false,
		"/poster.jpg%00": false, "/poster.jpg/../secret": false,
	} {
		if r := b.do("GET", target, ""); public {
			if got := r.seen().Target; got != target {
				t.Errorf("the site saw %q for %q", got, target)
			}
		} else {
			r.problem(403, "not-admitted")
		}
	}
}

func TestEdge_NoRoomPassesToTheDefaultUpstream(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	b := h.browser()
	b.host = "elsewhere.test"
	got := b.do("POST", "/any/%2F?q=%zz", "body", "X-Ropeline-Visitor: forged").seen()
	if got.Target != "/any/%2F?q=%zz" || got.Body != "body" || got.Host != "elsewhere.test" || got.Header.Get("X-Ropeline-Visitor") != "" {
		t.Errorf("the site saw %+v", got)
	}
}

func TestEdge_NothingUnderTheReservedPrefixIsProxied(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	b.enter()
	b.host = hall
	id := h.room()
	for _, target := range []string{
		"/_ropeline", "/_ropeline/", "/_ROPELINE/", "/%5fropeline/", "/%5Fropeline/events/" + id + "/status", "/_ropeline./x", "/_rope%6cine",
		"/_ropeline//events", "/_ropeline/../secret", "/_ropeline/events/" + id + "/nothing", "/_ropeline/events/" + id, "/_ropeline/events",
		"/_ropeline/rooms/" + id + "/", "/_ropeline/rooms/" + id + "/page/x", "/_ropel%C4%B1ne/", "/_ropeline?x", "/_ropeline%20/x",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "PROPFIND"} {
			r := b.do(method, target, "", "X-Queue-Token: "+b.accessCookie())
			if r.Header.Get(stateHeader) == "" {
				t.Errorf("%s %s: status %d without %s", method, target, r.StatusCode, stateHeader)
			}
		}
	}
	if n := h.site.asked.Load(); n != 0 {
		t.Errorf("%d requests reached the site", n)
	}
}

func TestEdge_WrongAddressesAndMethods(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	id := h.room()
	for target, allow := range map[string]string{
		b.api("/queue"):                        "POST",
		b.api("/queue/me"):                     "GET",
		b.api("/status"):                       "GET",
		b.api("/queue/me/leave"):               "POST",
		"/_ropeline/rooms/" + id + "/page":     "GET",
		"/_ropeline/rooms/" + id + "/wait":     "GET",
		"/_ropeline/.well-known/jwks.json":     "GET",
		"/_ropeline/auth":                      "GET",
		b.api("/queue") + "?x=/queue/me/leave": "POST",
	} {
		r := b.do("PUT", target, "")
		r.problem(405, "method-not-allowed")
		if !strings.Contains(r.Header.Get("Allow"), allow) {
			t.Errorf("PUT %s: Allow %q, want %s", target, r.Header.Get("Allow"), allow)
		}
	}
	for _, target := range []string{"/_ropeline/", "/_ropeline", "/_ropeline/events/" + id + "/nothing", "/_ropeline/x/y", "/_ropeline/events/" + id + "/queue/a/b/c"} {
		b.do("GET", target, "").problem(404, "not-found")
	}
	for _, target := range []string{"/_ropeline/events/other/queue/me", "/_ropeline/events/other/status", "/_ropeline/rooms/other/page", "/_ropeline/rooms/other/wait"} {
		b.do("GET", target, "").problem(404, "room-unknown")
	}
	b.do("POST", "/_ropeline/events/other/queue", "{}").problem(404, "room-unknown")
	b.do("TRACE", "/", "").problem(405, "method-not-allowed")
	// A browser gets a page.
	if r := b.open("/_ropeline/nothing").want(404); !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || r.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("a browser's 404: %v", r.Header)
	}
}

func TestEdge_BeforeThereIsASiteNothingPasses(t *testing.T) {
	e := New(token.New(nil, token.Config{}), Config{})
	s := httpServer(t, e)
	res, body := mustGet(t, s.client, s.url+"/")
	if res.StatusCode != 503 {
		t.Errorf("got %d %s, want 503", res.StatusCode, body)
	}
}

func TestEdge_SetSiteDropsNothing(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	tok := h.browser().enter().AccessToken
	stop := make(chan struct{})
	var load sync.WaitGroup
	var served atomic.Int64
	for range 8 {
		load.Go(func() {
			b := h.browser()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r := b.do("POST", "/buy", "seat", "X-Queue-Token: "+tok); r.StatusCode != 200 || r.Header.Get(stateHeader) != "" {
					t.Errorf("got %d %s", r.StatusCode, r.body)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range 100 {
		rooms := slices.Clone(h.cfg.rooms)
		rooms[0].Title = fmt.Sprint("Tour ", i)
		if i%2 == 0 {
			rooms = append(rooms, Room{Route: Route{Room: "other", Hosts: []string{"other.test"}}, Title: "Other", Line: rooms[0].Line})
		}
		if err := h.edge.SetSite(rooms, h.site.url); err != nil {
			t.Fatal(err)
		}
		before := served.Load()
		h.eventually("a request", func() bool { return served.Load() > before || t.Failed() })
	}
	close(stop)
	load.Wait()
	if err := h.edge.SetSite([]Room{{Route: Route{Room: "Bad Id"}}}, h.site.url); err == nil || !strings.Contains(err.Error(), "Bad Id") {
		t.Errorf("SetSite with a bad room: %v, want an error that names it", err)
	}
	if err := h.edge.SetSite(h.cfg.rooms, nil); err == nil {
		t.Error("SetSite without an upstream: no error")
	}
}

// storm has visitors do everything, well and badly, and returns the secrets that it used.
func storm(h *house) (secrets []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			b := h.browser()
			b.header.Set("X-Forwarded-For", "203.0.113.77")
			b.open("/")
			a := b.join().place(201)
			b.poll(a.QueueID)
			b.poll("me")
			b.poll(a.QueueID[:20])
			b.do("GET", "/", "", "X-Queue-Token: "+a.QueueID)
			b.do("POST", "/?secret="+a.QueueID, "x", "Cookie: "+accessCookie(h.room())+"=eyJh.e30.AAAA")
			b.do("POST", b.api("/queue"), `{"queueId":"`+a.AccessToken+`"}`)
			b.do("GET", "/_ropeline/events/room-"+fmt.Sprint(i)+"/status", "")
			b.do("GET", "/_ropeline/"+a.QueueID, "")
			b.do("GET", "/_ropeline/auth", "", "X-Forwarded-Uri: /?"+a.QueueID)
			b.do("GET", "/down?h.Connection=close&h.X-Ropeline-Session=extend", "")
			if i%3 == 0 {
				b.do("GET", "/?h.X-Ropeline-Session=end", "")
			}
			if i%3 == 1 {
				b.do("DELETE", b.api("/queue/"+a.QueueID), "")
			}
			mu.Lock()
			defer mu.Unlock()
			secrets = append(secrets, a.QueueID, a.AccessToken)
		})
	}
	all.Wait()
	return secrets
}

func TestEdge_LogsNameNoTokenAndNoAddress(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, proxies: loopback})
	secrets := storm(h)
	h.site.close() // the site goes away, too
	b := h.browser()
	b.header.Set("X-Forwarded-For", "203.0.113.77")
	b.do("GET", "/?t="+secrets[1], "", "X-Queue-Token: "+b.enter().AccessToken).problem(502, "upstream-down")
	got := h.log.text()
	if !strings.Contains(got, "upstream gave no answer") {
		t.Errorf("the log does not say that the site is away:\n%s", got)
	}
	for _, secret := range append(secrets, "203.0.113.77", "eyJ", "rp1.") {
		if secret != "" && strings.Contains(got, secret) {
			t.Fatalf("the log has %q:\n%s", secret, got)
		}
	}
}

func TestEdge_MetricsAreWellFormedAndBounded(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}, proxies: loopback})
	storm(h)
	problems, err := testutil.GatherAndLint(h.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "ropeline_proxy_") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				checked++
				value := label.GetValue()
				if label.GetName() == "room" && (value == "" || value == h.room()) {
					continue
				}
				if !strings.Contains(f.GetHelp(), value) {
					t.Errorf("%s{%s=%q}: the help names no such value", f.GetName(), label.GetName(), value)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d labels looked at", checked)
	}
}

func TestEdge_LeavesNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	storm(h)
	h.stop()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// simpleServer is a handler on a listener of ours, with nothing around it.
type simpleServer struct {
	url    string
	client *http.Client
}

func httpServer(t *testing.T, handler http.Handler) simpleServer {
	t.Helper()
	server, err := NewServer(handler, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()); <-served })
	return simpleServer{url: "http://" + l.Addr().String(), client: httpClient(t, false)}
}
