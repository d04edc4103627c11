package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// newLocalStand is a stand in front of a handler of this process.
func newLocalStand(t *testing.T, h http.HandlerFunc, cfg standConfig) *stand {
	t.Helper()
	s := newStand(t, "booking://core", cfg)
	s.up.addLocal(map[string]http.RoundTripper{coreScheme: LocalTransport(h)})
	return s
}

func TestLocal_TheHandlerSeesTheBytesThatTheVisitorSent(t *testing.T) {
	type asked struct{ target, path, host, peer, body, length string }
	got := make(chan asked, 1)
	s := newLocalStand(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- asked{r.RequestURI, r.URL.Path, r.Host, r.RemoteAddr, string(body), fmt.Sprint(r.ContentLength)}
	}, standConfig{})
	for _, c := range []struct {
		request string
		want    asked
	}{
		{"GET /v1/a%2Fb/../%7e?q=%zz&;#x HTTP/1.1\r\nHost: A.test\r\n\r\n", asked{"/v1/a%2Fb/../%7e?q=%zz&;#x", "/v1/a/b/../~", "a.test", "", "", "0"}},
		{"GET /? HTTP/1.1\r\nHost: a.test:81\r\n\r\n", asked{"/?", "/", "a.test:81", "", "", "0"}},
		{"GET /a//b HTTP/1.1\r\nHost: a.test\r\n\r\n", asked{"/a//b", "/a//b", "a.test", "", "", "0"}},
		{"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody", asked{"/p", "/p", "a.test", "", "body", "4"}},
		{"POST /p HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", asked{"/p", "/p", "a.test", "", "abc", "-1"}},
	} {
		conn := dialRaw(t, s.addr)
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%q: %v %v", c.request, res, err)
		}
		c.want.peer = conn.LocalAddr().String()
		if a := <-got; a != c.want {
			t.Errorf("the handler saw %+v\nwant %+v", a, c.want)
		}
	}
}

func TestLocal_AShortAnswerGoesOutWithItsLengthAndALongOneAsItComes(t *testing.T) {
	for name, c := range map[string]struct {
		serve                  http.HandlerFunc
		method                 string
		status                 int
		length, kind, encoding string
		body                   int // its length
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) {}, "GET", 200, "0", "", "", 0},
		"short":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "GET", 200, "6", "text/html; charset=utf-8", "", 6},
		"named type": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			_, _ = io.WriteString(w, "x")
		}, "GET", 200, "1", "a/b", "", 1},
		"long": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5000)) }, "GET", 200, "", "application/octet-stream", "chunked", 5000},
		"long by two": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("text"))
			_, _ = w.Write(make([]byte, 1<<20))
		}, "GET", 200, "", "application/octet-stream", "chunked", 1<<20 + 4},
		"of a length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9000")
			_, _ = w.Write(make([]byte, 9000))
		}, "GET", 200, "9000", "application/octet-stream", "", 9000},
		"to a HEAD": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "1234") }, "HEAD", 200, "4", "", "", 0},
		"long, HEAD": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9000")
			_, _ = w.Write(make([]byte, 9000))
		}, "HEAD", 200, "9000", "", "", 0},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); w.WriteHeader(500) }, "GET", 204, "", "", "", 0},
		"unchanged": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(304)
			_, err := io.WriteString(w, "x")
			mustBe(err, http.ErrBodyNotAllowed)
		}, "GET", 304, "", "", "", 0},
		"created": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.Header().Set("Late", "x")
			_, _ = io.WriteString(w, "{}")
		}, "POST", 201, "2", "text/plain; charset=utf-8", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLocalStand(t, c.serve, standConfig{})
			r, err := http.NewRequest(c.method, s.url+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := httpClient(t, false).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || len(body) != c.body || res.StatusCode != c.status {
				t.Errorf("status %d, %d bytes, %v; want %d, %d", res.StatusCode, len(body), err, c.status, c.body)
			}
			if h := res.Header; h.Get("Content-Length") != c.length || h.Get("Content-Type") != c.kind || strings.Join(res.TransferEncoding, ",") != c.encoding || h.Get("Late") != "" {
				t.Errorf("headers %v %v, want length %q, type %q, encoding %q", h, res.TransferEncoding, c.length, c.kind, c.encoding)
			}
		})
	}
}

func mustBe(err, want error) {
	if !errors.Is(err, want) {
		panic(fmt.Sprintf("got %v, want %v", err, want))
	}
}

func TestLocal_AHandlerThatIsDoneAtOnceHasAnsweredEachTime(t *testing.T) {
	rt := LocalTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for range 2000 {
		res, err := rt.RoundTrip(httptest.NewRequest("GET", "/", nil))
		if err != nil || res.StatusCode != 204 {
			t.Fatalf("%v, %v", res, err)
		}
		_ = res.Body.Close()
	}
}

func TestLocal_AnAnswerStreams(t *testing.T) {
	read := make(chan struct{})
	s := newLocalStand(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"one", "two"} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
			<-read
		}
	}, standConfig{})
	res, err := httpClient(t, false).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, want := range []string{"one", "two"} {
		got := make([]byte, 3)
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q before the handler goes on", got, err, want)
		}
		read <- struct{}{}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
		t.Errorf("rest %q, %v", rest, err)
	}
}

func TestLocal_AHandlerThatPanicsGivesNoAnswerOrCutsIt(t *testing.T) {
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		status int
		cut    bool
	}{
		"at once":             {func(http.ResponseWriter, *http.Request) { panic("broken") }, 502, false},
		"aborted":             {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, false},
		"with a short answer": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"); panic("broken") }, 502, false},
		"while it answers":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 9000)); panic("broken") }, 200, true},
		"less than its length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9000")
			_, _ = w.Write(make([]byte, 8999))
		}, 200, true},
		"more than its length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, err := io.WriteString(w, "xxx")
			mustBe(err, http.ErrContentLength)
		}, 502, false},
		"a status that is none": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) }, 502, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLocalStand(t, c.serve, standConfig{})
			res, err := httpClient(t, false).Get(s.url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			_, err = io.ReadAll(res.Body)
			if res.StatusCode != c.status || (err != nil) != c.cut {
				t.Errorf("status %d, %v; want %d, cut %v", res.StatusCode, err, c.status, c.cut)
			}
		})
	}
}

func TestLocal_AVisitorWhoLeavesEndsTheHandler(t *testing.T) {
	for name, early := range map[string]bool{"before the answer": false, "in the answer": true} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan error, 1)
			s := newLocalStand(t, func(w http.ResponseWriter, r *http.Request) {
				if early {
					w.(http.Flusher).Flush()
				}
				close(began)
				<-r.Context().Done()
				_, err := w.Write(make([]byte, 9000))
				ended <- err
			}, standConfig{})
			ctx, cancel := context.WithCancel(context.Background())
			r, err := http.NewRequestWithContext(ctx, "GET", s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := httpClient(t, false).Do(r); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
			<-began
			cancel()
			<-done
			if err := <-ended; err == nil {
				t.Error("the handler could still write to nobody")
			}
		})
	}
}

func TestLocal_WhatOneRequestCarriesDoesNotReachAnother(t *testing.T) {
	type key struct{}
	ctx := httptrace.WithClientTrace(context.WithValue(context.Background(), key{}, "secret"), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code != 103 || h.Get("Link") != "</a>" {
				t.Errorf("got %d %v", code, h)
			}
			return nil
		},
	})
	r := httptest.NewRequestWithContext(ctx, "GET", "http://core/x", nil)
	res, err := LocalTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(key{}) != nil || httptrace.ContextClientTrace(r.Context()) != nil {
			t.Error("the handler's own requests would be taken for the visitor's")
		}
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})).RoundTrip(r)
	if err != nil || res.StatusCode != 418 || res.Request != r {
		t.Fatalf("%v %v", res, err)
	}
	_ = res.Body.Close()
	if r.URL.Path != "/x" || r.Body == nil {
		t.Errorf("the request was changed: %v", r)
	}
}

func TestLocal_ClosingTheAnswerWaitsForTheHandler(t *testing.T) {
	returned := make(chan struct{})
	res, err := LocalTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		time.Sleep(10 * time.Millisecond)
	})).RoundTrip(httptest.NewRequest("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-returned:
	default:
		t.Error("the handler still runs")
	}
}

func TestLocal_AnEarlyAnswerDoesNotWaitForTheBody(t *testing.T) {
	s := newLocalStand(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		w.(http.Flusher).Flush()
	}, standConfig{})
	conn := dialRaw(t, s.addr)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\nstart"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || statusOf(line) != "413" {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestLocal_NoUpgradeGoesThrough(t *testing.T) {
	s := newLocalStand(t, func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		if r.URL.Path == "/switch" {
			w.Header().Set("Connection", "upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	}, standConfig{})
	for path, want := range map[string]string{"/": "200", "/switch": "502"} {
		got := askRaw(t, s.addr, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n")
		if statusOf(got) != want {
			t.Errorf("%s: got %q, want %s", path, got, want)
		}
	}
}
