package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// unreadWay is an answer to a request whose body nobody reads.
type unreadWay struct {
	name, addr, method, target, host, accept string
	status                                   int
	log                                      *logBook
}

// earlySite answers what it has seen the head of, and lets the rest come without a look at it.
func earlySite(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// unreadWays are all of them.
func unreadWays(t *testing.T) []unreadWay {
	h := newHouse(t, houseConfig{rooms: []Room{coreRoom(hall)}, core: newShowCore()})
	h.crowded()
	edge := strings.TrimPrefix(h.url, "http://")
	ignore := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }
	long := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) }
	log := &logBook{}
	cfg := standConfig{server: ServerConfig{Logger: slog.New(slog.NewTextHandler(log, nil))}}
	return []unreadWay{
		{"refused", edge, "POST", "/events/1/", hall, "*/*", 403, h.log},
		{"queue page", edge, "GET", "/events/1/", hall, "text/html", 200, h.log},
		{"no such address", edge, "POST", "/_ropeline/nothing", hall, "*/*", 404, h.log},
		{"wrong method", edge, "POST", "/_ropeline/events/" + h.room() + "/status", hall, "*/*", 405, h.log},
		{"core", edge, "POST", "/events/1/holds", hall, "*/*", 403, h.log},
		{"local", newLocalStand(t, ignore, cfg).addr, "POST", "/", hall, "*/*", 403, log},
		{"local, long answer", newLocalStand(t, long, cfg).addr, "POST", "/", hall, "*/*", 200, log},
		{"site", newStand(t, originSite(t, ignore), cfg).addr, "POST", "/", hall, "*/*", 403, log},
		{"site, long answer", newStand(t, originSite(t, long), cfg).addr, "POST", "/", hall, "*/*", 200, log},
		{"early site", newStand(t, earlySite(t), cfg).addr, "POST", "/", hall, "*/*", 413, log},
		{"no site", newStand(t, "http://127.0.0.1:1", cfg).addr, "POST", "/", hall, "*/*", 502, log},
	}
}

func TestUnread_NoRequestIsLostBehindABodyThatNobodyRead(t *testing.T) {
	for _, way := range unreadWays(t) {
		for _, size := range []int{1, 1000, 5000, 100 << 10, 300 << 10, 2 << 20} {
			for _, framing := range []string{"length", "chunked", "expect"} {
				if (size > 1<<20 || way.name == "queue page") && framing == "expect" { // the client waits for its 100 in vain
					continue
				}
				t.Run(fmt.Sprint(way.name, "/", size, "/", framing), func(t *testing.T) {
					c := httpClient(t, false)
					c.Transport.(*http.Transport).ExpectContinueTimeout = 50 * time.Millisecond
					for i := range 12 {
						r, _ := http.NewRequest(way.method, "http://"+way.addr+way.target, bytes.NewReader(make([]byte, size)))
						r.Host, r.GetBody = way.host, nil // no second try behind our back
						r.Header.Set("Accept", way.accept)
						switch framing {
						case "chunked":
							r.ContentLength = -1
						case "expect":
							r.Header.Set("Expect", "100-continue")
						}
						res, err := c.Do(r)
						if err != nil {
							t.Fatalf("request %d: %v", i, err)
						}
						_, err = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
						if err != nil || res.StatusCode != way.status {
							t.Fatalf("request %d: got %d %v, want %d", i, res.StatusCode, err, way.status)
						}
					}
				})
			}
		}
		if strings.Contains(way.log.text(), "panicked") {
			t.Fatalf("%s: %s", way.name, way.log.text())
		}
	}
}

// head is a request of a way, up to its body.
func (way unreadWay) head(fields string) string {
	return way.method + " " + way.target + " HTTP/1.1\r\nHost: " + way.host + "\r\nAccept: " + way.accept + "\r\n" + fields + "\r\n\r\n"
}

func TestUnread_ABodyThatIsHereDoesNotCostTheConnection(t *testing.T) {
	for _, way := range unreadWays(t) {
		for name, request := range map[string]string{
			"length":  way.head("Content-Length: 1000") + strings.Repeat("x", 1000),
			"chunked": way.head("Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n",
		} {
			t.Run(way.name+"/"+name, func(t *testing.T) {
				c := dialRaw(t, way.addr)
				in := bufio.NewReader(c)
				for i := range 20 {
					if _, err := io.WriteString(c, request); err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != way.status || res.Close {
						t.Fatalf("request %d: got %d %v, close %v, want %d and a connection that stays", i, res.StatusCode, err, res.Close, way.status)
					}
				}
			})
		}
		if strings.Contains(way.log.text(), "panicked") {
			t.Fatalf("%s: %s", way.name, way.log.text())
		}
	}
}

func TestUnread_ABodyThatIsHeldBackDoesNotHoldTheAnswer(t *testing.T) {
	for _, way := range unreadWays(t) {
		if strings.HasPrefix(way.name, "site") { // a Go server, which waits for the body itself
			continue
		}
		for _, fields := range []string{"Content-Length: 1000", "Content-Length: 1000000000", "Transfer-Encoding: chunked", "Content-Length: 1000\r\nExpect: 100-continue"} {
			t.Run(way.name+"/"+fields, func(t *testing.T) {
				c := dialRaw(t, way.addr)
				_, _ = io.WriteString(c, way.head(fields))
				_ = c.SetDeadline(time.Now().Add(4 * time.Second))
				in := bufio.NewReader(c)
				res, err := http.ReadResponse(in, nil)
				if err == nil && res.StatusCode == 100 { // a site was asked first
					res, err = http.ReadResponse(in, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != way.status || !res.Close {
					t.Fatalf("got %d %v, close %v, want %d and a connection that closes", res.StatusCode, err, res.Close, way.status)
				}
			})
		}
	}
}

// A client that sends all of its body before it looks for the answer must find it, however long that takes.
func TestUnread_NoAnswerIsLostToAReset(t *testing.T) {
	for _, way := range unreadWays(t) {
		for _, framing := range []string{"Content-Length: 3000000", "Transfer-Encoding: chunked"} {
			t.Run(way.name+"/"+framing, func(t *testing.T) {
				t.Parallel()
				c := dialRaw(t, way.addr)
				_, _ = io.WriteString(c, way.head(framing))
				piece := bytes.Repeat([]byte("x"), 100000)
				if strings.HasPrefix(framing, "T") {
					piece = []byte(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
				}
				for i := range 30 {
					if _, err := c.Write(piece); err != nil {
						t.Fatalf("piece %d: %v", i, err)
					}
					time.Sleep(50 * time.Millisecond) // a slow line
				}
				if strings.HasPrefix(framing, "T") {
					_, _ = io.WriteString(c, "0\r\n\r\n")
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != way.status || !res.Close {
					t.Fatalf("got %d %v, close %v, want %d and a connection that closes", res.StatusCode, err, res.Close, way.status)
				}
			})
		}
	}
}

func TestUnread_ClosingInAHurryDoesNotLinger(t *testing.T) {
	s := newLocalStand(t, func(http.ResponseWriter, *http.Request) {}, standConfig{})
	c := dialRaw(t, s.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n")
	if _, err := io.ReadAll(c); err != nil { // to the half-close
		t.Fatal(err)
	}
	if len(s.server.slots) == 0 {
		t.Fatal("the server did not linger")
	}
	s.server.hurry.Store(true)
	_ = s.server.http.Close()
	for deadline := time.Now().Add(2 * time.Second); len(s.server.slots) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server still lingers")
		}
	}
}
