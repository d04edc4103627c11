package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

// site is an upstream that counts who comes.
type site struct {
	*httptest.Server
	release chan struct{} // closed: slow answers end

	mu       sync.Mutex
	bare     int               // requests for gated pages without X-Ropeline-Session
	sessions map[string]string // session -> place number
	places   map[string]string // place number -> session
	mixed    []string          // sessions with two places, places with two sessions
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{release: make(chan struct{}), sessions: map[string]string{}, places: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "page %s\n", r.URL.Path) })
	mux.HandleFunc("/{room}/slow", func(w http.ResponseWriter, r *http.Request) { s.slow(w, r, "text/plain", "") })
	mux.HandleFunc("/{room}/live", func(w http.ResponseWriter, r *http.Request) { s.slow(w, r, "text/event-stream", "data: ") })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.note(r)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		select {
		case <-s.release:
		default:
			close(s.release)
		}
	})
	return s
}

// slow writes a line every 50 ms until it is released, or its visitor leaves.
func (s *site) slow(w http.ResponseWriter, r *http.Request, kind, prefix string) {
	w.Header().Set("Content-Type", kind)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _ = io.WriteString(w, prefix+"on\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.release:
			_, _ = io.WriteString(w, prefix+"the end\n\n")
			return
		}
	}
}

func (s *site) note(r *http.Request) {
	session, place := r.Header.Get("X-Ropeline-Session"), r.Header.Get("X-Ropeline-Place")
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == "" {
		s.bare++
		return
	}
	if was, known := s.sessions[session]; known && was != place {
		s.mixed = append(s.mixed, fmt.Sprintf("session %s came with place %s and %s", session, was, place))
	}
	if was, known := s.places[place]; known && was != session {
		s.mixed = append(s.mixed, fmt.Sprintf("place %s came with session %s and %s", place, was, session))
	}
	s.sessions[session], s.places[place] = place, session
}

// settings are a configuration file: rooms are YAML mappings in one line.
type settings struct {
	path, redis, upstream, top string
	listen, admin              string // default: any free port
}

// write makes the file anew, as an editor does: at once.
func (s settings) write(t *testing.T, rooms ...string) {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "listen: %s\nadmin_listen: %s\nredis: {url: %q}\nupstream: %s\n%s\nrooms:\n",
		cmp.Or(s.listen, "127.0.0.1:0"), cmp.Or(s.admin, "127.0.0.1:0"), s.redis, s.upstream, s.top)
	for _, r := range rooms {
		fmt.Fprintf(&b, "  - {%s}\n", r)
	}
	if err := os.WriteFile(s.path+".new", b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		t.Fatal(err)
	}
}

func newSettings(t *testing.T, redisURL string, s *site) settings {
	return settings{path: filepath.Join(t.TempDir(), "ropeline.yaml"), redis: redisURL, upstream: s.URL}
}

// showRoom gates /show/ and admits everybody at once, for long.
const showRoom = "id: show, paths: [/show/], rate: 1000/s, active_limit: 1000, session: 10m, poll: {min: 1s, max: 5s}"

// client makes no use of connections of other tests.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// place is the queue API's answer.
type place struct {
	Status      int    `json:"-"`
	QueueID     string `json:"queueId"`
	State       string `json:"state"`
	Number      int64  `json:"number"`
	Ahead       *int   `json:"ahead"`
	AccessToken string `json:"accessToken"`
	Type        string `json:"type"` // of a problem
}

func call(t *testing.T, c *http.Client, method, url string, header ...string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res.StatusCode, body
}

func readPlace(t *testing.T, status int, body []byte) place {
	t.Helper()
	p := place{Status: status}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%d %q: %v", status, body, err)
	}
	return p
}

// join asks for a place in a room as an API client.
func (p *process) join(c *http.Client, room string) place {
	p.t.Helper()
	status, body := call(p.t, c, http.MethodPost, "http://"+p.listen+"/_ropeline/events/"+room+"/queue")
	return readPlace(p.t, status, body)
}

func (p *process) poll(c *http.Client, room, queueID string) place {
	p.t.Helper()
	status, body := call(p.t, c, http.MethodGet, "http://"+p.listen+"/_ropeline/events/"+room+"/queue/"+queueID)
	return readPlace(p.t, status, body)
}

// open opens a gated page with an access token and returns the status.
func (p *process) open(c *http.Client, path, token string) int {
	p.t.Helper()
	status, _ := call(p.t, c, http.MethodGet, "http://"+p.listen+path, "X-Queue-Token", token)
	return status
}

// rooms is what the admin API says.
func (p *process) rooms(c *http.Client) roomsView {
	p.t.Helper()
	_, body := call(p.t, c, http.MethodGet, "http://"+p.admin+"/admin/v1/rooms")
	var view roomsView
	if err := json.Unmarshal(body, &view); err != nil {
		p.t.Fatalf("%q: %v", body, err)
	}
	return view
}

// metric is the value of a series, written as in the exposition; 0 if there is none. An error is a node that does not
// answer within a second.
func (p *process) metric(series string) (float64, error) {
	c := http.Client{Timeout: time.Second}
	defer c.CloseIdleConnections()
	res, err := c.Get("http://" + p.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(body)
	if found == nil {
		return 0, nil
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// waitMetric waits until a series has a value.
func (p *process) waitMetric(series string, want float64) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%s is %v", series, want), func() bool {
		got, err := p.metric(series)
		return err == nil && got == want
	})
}

// balance spreads connections over nodes in turn and returns its address: polls of one visitor reach every node.
func balance(t *testing.T, nodes ...*process) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for i := 0; ; i++ {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(ctx, from, nodes[i%len(nodes)].listen) })
		}
	})
	return l.Addr().String()
}

func forward(ctx context.Context, from net.Conn, to string) {
	defer from.Close()
	ahead, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer ahead.Close()
	over := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, ahead}, {ahead, from}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // either end may close at any time
			over <- struct{}{}
		}()
	}
	pending := 2
	select {
	case <-over:
		pending--
	case <-ctx.Done():
	}
	_, _ = from.Close(), ahead.Close()
	for range pending {
		<-over
	}
}

// watched is what sampling a room in Redis has shown.
type watched struct {
	samples, most int
	back          []string // times when the serving score went back
}

// activeNow counts whose session has not ended by Redis's own clock, and reads the serving score.
var activeNow = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return {redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf'), redis.call('HGET', KEYS[2], 'serving') or '0'}`)

// watch samples a room a few hundred times a second until the returned function is called.
func watch(t *testing.T, rdb redis.UniversalClient, room string) (stop func() watched) {
	t.Helper()
	var w watched
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	keys := []string{"rope:{" + room + "}:active", "rope:{" + room + "}:state"}
	go func() {
		defer close(done)
		var serving int64
		for ctx.Err() == nil {
			got, err := activeNow.Run(context.Background(), rdb, keys).Slice()
			if err != nil {
				t.Errorf("sample: %v", err)
				return
			}
			w.samples++
			w.most = max(w.most, int(got[0].(int64)))
			at, _ := strconv.ParseInt(got[1].(string), 10, 64)
			if at < serving {
				w.back = append(w.back, fmt.Sprintf("%d became %d", serving, at))
			}
			serving = max(serving, at)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	stop = sync.OnceValue(func() watched {
		cancel()
		<-done
		return w
	})
	t.Cleanup(func() { stop() })
	return stop
}

// check fails where the room broke a promise that Redis shows.
func (w watched) check(t *testing.T, limit int) {
	t.Helper()
	t.Logf("%d samples, most active %d of %d", w.samples, w.most, limit)
	if w.most > limit {
		t.Errorf("%d active at once, the limit is %d", w.most, limit)
	}
	if w.most < limit/2 {
		t.Errorf("at most %d were active of %d: this crowd shows nothing", w.most, limit)
	}
	if len(w.back) > 0 {
		t.Errorf("the serving score went back: %s", strings.Join(w.back, ", "))
	}
}

// pair is two nodes on one Redis behind a balancer, with a room named show that is watched in Redis.
type pair struct {
	a, b   *process
	target string // of the room, by the balancer
	behind *site
	rdb    *redis.Client
	stop   func() watched
}

// twoNodes starts a pair; room is what its settings say beyond the id, the path and quick polls.
func twoNodes(t *testing.T, room string) pair {
	t.Helper()
	store := redistest.Private(t)
	p := pair{behind: newSite(t), rdb: store.Client()}
	t.Cleanup(func() { _ = p.rdb.Close() })
	set := newSettings(t, store.URL(), p.behind)
	set.write(t, "id: show, paths: [/show/], poll: {min: 1s, max: 4s}, "+room)
	p.a, p.b = launch(t, set.path), launch(t, set.path)
	p.a.ready()
	p.b.ready()
	p.target, p.stop = "http://"+balance(t, p.a, p.b)+"/show/", watch(t, p.rdb, "show")
	return p
}
