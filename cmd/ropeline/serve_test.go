//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeline/internal/redisbox"
	"ropeline/internal/redisbox/redistest"
)

// needRedis skips or fails a test where there is no redis-server.
func needRedis(t *testing.T) string { t.Helper(); return redistest.Path(t) }

// freeAddress is an address on which nothing listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func dials(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func TestServe_PortOpensWhenJoinsCanBeAnswered(t *testing.T) {
	store := redistest.Private(t)
	store.Kill()
	set := newSettings(t, store.URL(), newSite(t))
	set.listen, set.admin = freeAddress(t), freeAddress(t)
	set.write(t, showRoom)
	node := launch(t, set.path)
	node.listen, node.admin = set.listen, set.admin
	node.said("waiting for Redis")
	c := newClient(t)
	c.Timeout = 5 * time.Second
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200} {
		res, err := c.Get("http://" + node.admin + path)
		if err != nil {
			t.Errorf("%s while Redis is down: %v, want %d", path, err, want)
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s while Redis is down: %d, want %d", path, res.StatusCode, want)
		}
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if dials(node.listen) {
			t.Fatal("the port is open while Redis is down")
		}
	}
	if err := store.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port opens", func() bool { return dials(node.listen) })
	if p := node.join(newClient(t), "show"); p.Status != http.StatusCreated || p.State != "admitted" {
		t.Errorf("the first join: %+v, want an admission", p)
	}
	if status, _ := call(t, newClient(t), http.MethodGet, "http://"+node.admin+"/readyz"); status != 200 {
		t.Errorf("/readyz: %d, want 200", status)
	}
	node.mu.Lock()
	defer node.mu.Unlock()
	for _, line := range node.log {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %s", line)
			break
		}
	}
}

func TestServe_StopsWhileItWaitsForRedis(t *testing.T) {
	t.Parallel()
	store := redistest.Private(t)
	store.Kill()
	set := newSettings(t, store.URL(), newSite(t))
	set.write(t, showRoom)
	node := launch(t, set.path)
	node.said("waiting for Redis")
	node.signal(syscall.SIGTERM)
	node.ended(patience)
}

func TestServe_BrokenFileChangesNothing(t *testing.T) {
	t.Parallel()
	set := newSettings(t, redistest.Private(t).URL(), newSite(t))
	set.write(t, "id: show, paths: [/show/], rate: 7/s, active_limit: 100")
	node := serving(t, set.path)
	c := newClient(t)
	first := node.join(c, "show")

	set.write(t, "id: show, paths: [/show/], rate: 9, active_limit: 100", "id: other, paths: [/other/], rate: 1/s, active_limit: 1")
	node.waitMetric("ropeline_config_last_reload_successful", 0)
	node.waitMetric(`ropeline_config_reloads_total{result="failed"}`, 1)
	if line := node.said("configuration not used, the old one stays"); !strings.Contains(line["err"].(string), "rooms[0] (show).rate") {
		t.Errorf("the log says %v, want what is wrong", line)
	}
	view := node.rooms(c)
	if !strings.Contains(view.Config.Error, "rooms[0] (show).rate") {
		t.Errorf("the admin API says %q of the file, want what is wrong", view.Config.Error)
	}
	if len(view.Rooms) != 1 || view.Rooms[0].Rate != 7 {
		t.Errorf("rooms %+v, want the one of before at 7/s", view.Rooms)
	}
	if p := node.poll(c, "show", first.QueueID); p.Status != 200 || p.Number != first.Number {
		t.Errorf("a place from before: %+v, want number %d", p, first.Number)
	}

	set.write(t, "id: show, paths: [/show/], rate: 9/s, active_limit: 100")
	node.waitMetric("ropeline_config_last_reload_successful", 1)
	eventually(t, "the repaired file is in use", func() bool {
		view := node.rooms(c)
		return view.Config.Error == "" && view.Rooms[0].Rate == 9
	})
}

func TestServe_RoomsComeAndGoWithoutCuttingAnybodyOff(t *testing.T) {
	t.Parallel()
	behind := newSite(t)
	set := newSettings(t, redistest.Private(t).URL(), behind)
	stays := "id: stays, paths: [/stays/], rate: 0, active_limit: 100"
	goes := "id: goes, paths: [/goes/], rate: 100/s, active_limit: 100"
	comes := "id: comes, paths: [/comes/], rate: 100/s, active_limit: 100"
	set.write(t, stays, goes)
	node := serving(t, set.path)
	c := newClient(t)
	waits, inside := node.join(c, "stays"), node.join(c, "goes")
	if waits.State == "admitted" || inside.AccessToken == "" {
		t.Fatalf("%+v and %+v; want one to wait and one to be admitted", waits, inside)
	}
	body := stream(t, c, "http://"+node.listen+"/goes/slow", "X-Queue-Token", inside.AccessToken)

	set.write(t, stays, comes)
	eventually(t, "the rooms have changed", func() bool {
		var ids []string
		for _, r := range node.rooms(c).Rooms {
			ids = append(ids, r.ID)
		}
		return slices.Equal(ids, []string{"comes", "stays"})
	})
	if p := node.join(c, "comes"); p.Status != http.StatusCreated || p.State != "admitted" || node.open(c, "/comes/", p.AccessToken) != 200 {
		t.Errorf("a join in the new room: %+v, want an admission that opens it", p)
	}
	if p := node.join(c, "goes"); p.Status != 404 || p.Type != "urn:ropeline:room-unknown" {
		t.Errorf("a join in the room that went: %+v, want 404 room-unknown", p)
	}
	if p := node.poll(c, "stays", waits.QueueID); p.Status != 200 || p.Number != waits.Number || p.State != "paused" {
		t.Errorf("a place in the room that stays: %+v, want number %d", p, waits.Number)
	}
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) { reused = g.Reused }})
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.listen+"/", nil)
	res, err := c.Do(req)
	if err != nil || !reused {
		t.Errorf("a request on a connection from before: %v, reused %v", err, reused)
	} else {
		_ = res.Body.Close()
	}
	for range 5 {
		if line, err := body.ReadString('\n'); err != nil {
			t.Fatalf("the stream through the room that went: %q, %v", line, err)
		}
	}
	close(behind.release)
	rest, err := io.ReadAll(body)
	if err != nil || !strings.HasSuffix(string(rest), "the end\n\n") {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
	node.said("room removed")
}

// stream begins a request whose answer goes on, and returns the answer after its first line.
func stream(t *testing.T, c *http.Client, url string, header ...string) *bufio.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); res.StatusCode != 200 || err != nil {
		t.Fatalf("%s: %d %q %v", url, res.StatusCode, line, err)
	}
	return body
}

func TestServe_ReadsTheFileAnewOnSIGHUP(t *testing.T) {
	t.Parallel()
	set := newSettings(t, redistest.Private(t).URL(), newSite(t))
	set.write(t, showRoom)
	node := serving(t, set.path)
	for i := range 2 {
		node.signal(syscall.SIGHUP)
		node.waitMetric(`ropeline_config_reloads_total{result="ok"}`, float64(i+1))
	}
	if p := node.join(newClient(t), "show"); p.State != "admitted" {
		t.Errorf("a join after it: %+v", p)
	}
}

func TestServe_DrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	store := redistest.Private(t)
	behind := newSite(t)
	set := newSettings(t, store.URL(), behind)
	set.top = "shutdown_grace: 2m"
	set.write(t, showRoom)
	node := serving(t, set.path)
	rdb := store.Client()
	defer rdb.Close()
	lease := func() int64 { return rdb.Exists(t.Context(), "rope:{show}:lease").Val() }
	eventually(t, "it leads", func() bool { return lease() == 1 })
	c := newClient(t)
	body := stream(t, c, "http://"+node.listen+"/show/slow", "X-Queue-Token", node.join(c, "show").AccessToken)

	node.signal(syscall.SIGTERM)
	eventually(t, "nobody new is let in", func() bool { return !dials(node.listen) })
	eventually(t, "the lease is given up", func() bool { return lease() == 0 })
	if status, _ := call(t, newClient(t), http.MethodGet, "http://"+node.admin+"/readyz"); status != 503 {
		t.Errorf("/readyz while it drains: %d, want 503", status)
	}
	for range 5 {
		if line, err := body.ReadString('\n'); err != nil {
			t.Fatalf("a request in flight: %q, %v", line, err)
		}
	}
	close(behind.release)
	rest, err := io.ReadAll(body)
	if err != nil || !strings.HasSuffix(string(rest), "the end\n\n") {
		t.Errorf("a request in flight ended with %q, %v", rest, err)
	}
	if code := node.ended(patience); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if lease() != 0 {
		t.Error("it has ended and holds the lease")
	}
}

func TestServe_EventStreamsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	set := newSettings(t, redistest.Private(t).URL(), newSite(t))
	set.top = "shutdown_grace: 2m"
	set.write(t, showRoom)
	node := serving(t, set.path)
	c := newClient(t)
	body := stream(t, c, "http://"+node.listen+"/show/live", "X-Queue-Token", node.join(c, "show").AccessToken, "Accept", "text/event-stream")
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, body)
		ended <- err
	}()
	node.signal(syscall.SIGTERM)
	if code := node.ended(20 * time.Second); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if err := <-ended; err != nil {
		t.Errorf("the event stream ended with %v, want a clean end that lets the browser connect again", err)
	}
}

func TestServe_EveryKindOfRedis(t *testing.T) {
	start := map[string]func(ctx context.Context, path string) (url string, stop func(), err error){
		"sentinel": func(ctx context.Context, path string) (string, func(), error) {
			s, err := redisbox.StartSentinel(ctx, path)
			if err != nil {
				return "", nil, err
			}
			return s.URL(), s.Stop, nil
		},
		"cluster": func(ctx context.Context, path string) (string, func(), error) {
			s, err := redisbox.StartCluster(ctx, path)
			if err != nil {
				return "", nil, err
			}
			return s.URL(), s.Stop, nil
		},
		"embedded": func(context.Context, string) (string, func(), error) { return "embedded", func() {}, nil },
		"auto":     func(context.Context, string) (string, func(), error) { return "auto", func() {}, nil },
	}
	for name, start := range start {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stop, err := start(t.Context(), needRedis(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			set := newSettings(t, url, newSite(t))
			set.write(t,
				"id: show, paths: [/show/], rate: 2/s, active_limit: 100, poll: {min: 1s, max: 2s}",
				"id: second, paths: [/second/], rate: 100/s, active_limit: 100") // on another shard of a cluster
			node := serving(t, set.path)
			c := newClient(t)
			var places []place
			for range 6 {
				p := node.join(c, "show")
				if p.Status != http.StatusCreated || p.Number != int64(len(places)+1) {
					t.Fatalf("join: %+v, want number %d", p, len(places)+1)
				}
				places = append(places, p)
			}
			if places[5].State != "waiting" {
				t.Errorf("the sixth of a room for 2/s: %+v, want it to wait", places[5])
			}
			for _, p := range places {
				eventually(t, "everybody is admitted", func() bool {
					if p.AccessToken == "" {
						p = node.poll(c, "show", p.QueueID)
					}
					return p.AccessToken != ""
				})
				if status := node.open(c, "/show/", p.AccessToken); status != 200 {
					t.Errorf("the page with a token: %d, want 200", status)
				}
			}
			if p := node.join(c, "second"); p.State != "admitted" || node.open(c, "/second/", p.AccessToken) != 200 {
				t.Errorf("a join in another room: %+v, want an admission", p)
			}
			if status := node.open(c, "/show/", ""); status != 403 {
				t.Errorf("the page without a token: %d, want 403", status)
			}
			node.signal(syscall.SIGTERM)
			if code := node.ended(patience); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
		})
	}
}
