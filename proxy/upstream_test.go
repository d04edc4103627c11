package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// overHTTP1And2 runs a test over HTTP/1.1 and over HTTP/2 without TLS.
func overHTTP1And2(t *testing.T, test func(t *testing.T, c *http.Client)) {
	t.Run("HTTP/1.1", func(t *testing.T) { test(t, httpClient(t, false)) })
	t.Run("h2c", func(t *testing.T) { test(t, httpClient(t, true)) })
}

func TestUpstream_ForwardsTargetByteForByte(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{})
	for _, target := range []string{"/", "/a?", "/a?a=1;token=2", "/a?a=%zz&b=2", "/%41%2f..%2F/./;x\\//y", "/\xff\xc0\xaf?\xff", "/a#b?c#d", "/%2e%2e/x?y=+%20", "/a?" + strings.Repeat("&", 10001) + "last=1"} {
		if got := askRaw(t, s.addr, "GET "+target+" HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"); statusOf(got) != "200" {
			t.Errorf("%.60q: got %.200q", target, got)
		}
		if line, _, _ := strings.Cut(rec.taken(), "\r\n"); line != "GET "+target+" HTTP/1.1" {
			t.Errorf("%.60q: the site was asked %.60q", target, line)
		}
	}
}

func TestUpstream_ForwardsTargetByteForByteFromHTTP2AndBehindABasePath(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url+"/base/", standConfig{})
	r, _ := http.NewRequest("GET", s.url, nil)
	r.URL.Opaque = "/%41;x%2f?a=1;b=%zz"
	res, err := httpClient(t, true).Do(r)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	if line, _, _ := strings.Cut(rec.taken(), "\r\n"); line != "GET /base/%41;x%2f?a=1;b=%zz HTTP/1.1" {
		t.Errorf("the site was asked %q", line)
	}
}

func TestUpstream_TellsTheSiteWhoWasLetInAndNothingElse(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{pass: func(p *pass) {
		p.Visitor, p.Room, p.Place, p.Session = "v", "tour", "p", "s"
	}})
	got := askRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: A.TEST.:80\r\nX-Ropeline-Visitor: evil\r\nx_ropeline_session: evil\r\nX-ROPELINE-ADMIN: evil\r\n"+
		"X-Queue-Token: evil\r\nX-Real-IP: evil\r\nX-Original-URL: evil\r\nX-Rewrite-URL: evil\r\nX-Forwarded-Prefix: evil\r\nX-Forwarded-For: evil\r\n"+
		"X-Forwarded-Host: evil\r\nX-Forwarded-Proto: evil\r\nForwarded: for=evil\r\nX_Forwarded_For: evil\r\nCookie: a=1; ropeline_tour=evil; b=2\r\nX-Mine: kept\r\nExpect: 100-continue\r\n"+
		"Connection: close, X-Ropeline-Visitor, x-ropeline-ROOM, X-Forwarded-For, x-forwarded-proto, Cookie-Not, Transfer-Encoding\r\n\r\n")
	if statusOf(got) != "200" {
		t.Fatalf("got %q", got)
	}
	head := rec.taken()
	for _, want := range []string{"Host: a.test", "X-Ropeline-Visitor: v", "X-Ropeline-Room: tour", "X-Ropeline-Place: p", "X-Ropeline-Session: s",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a.test", "X-Forwarded-Proto: http", "Cookie: a=1; b=2", "X-Mine: kept"} {
		if !strings.Contains(head, want+"\r\n") {
			t.Errorf("%q did not reach the site:\n%s", want, head)
		}
	}
	if strings.Contains(head, "evil") || strings.Contains(head, "Expect") {
		t.Errorf("the site was told what the client made up:\n%s", head)
	}
}

func TestUpstream_WithoutARoomSetsNoIdentityAndStripsTheSame(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{})
	for _, connection := range []string{"close", "\r\nConnection: close", "close\r\nConnection: x-ropeline-visitor"} {
		askRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Ropeline-Visitor: evil\r\nConnection: "+connection+"\r\n\r\n")
		if head := rec.taken(); head == "" || strings.Contains(strings.ToLower(head), "ropeline") {
			t.Errorf("Connection %q: got %q", connection, head)
		}
	}
}

func TestUpstream_ForwardsTokenOnlyWhenAskedTo(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{pass: func(p *pass) { p.Token = "ours" }})
	askRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Queue-Token: theirs\r\nConnection: close, X-Queue-Token\r\n\r\n")
	if head := rec.taken(); !strings.Contains(head, "X-Queue-Token: ours\r\n") || strings.Contains(head, "theirs") {
		t.Errorf("got %q", head)
	}
}

func TestUpstream_CarriesOnWhatATrustedProxySays(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	askRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: www.a.test\r\nX-Real-IP: 203.0.113.9\r\nForwarded: for=203.0.113.9\r\nConnection: close, X-Forwarded-For\r\n\r\n")
	head := rec.taken()
	for _, want := range []string{"X-Forwarded-For: 203.0.113.9, 127.0.0.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: www.a.test", "X-Real-Ip: 203.0.113.9", "Forwarded: for=203.0.113.9, for=127.0.0.1"} {
		if !strings.Contains(head, want+"\r\n") {
			t.Errorf("%q did not reach the site:\n%s", want, head)
		}
	}
}

func TestUpstream_StripsOurNamesFromTrailersBothWays(t *testing.T) {
	got := make(chan http.Header, 1)
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Ropeline-Session")
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer.Clone()
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
		w.Header().Set("X-Ropeline-Session", "end")
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
		w.Header().Set(http.TrailerPrefix+"X-Ropeline-Late", "1")
	}), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		r, _ := http.NewRequest("POST", s.url, io.MultiReader(strings.NewReader("hello")))
		r.Trailer = http.Header{"X-Mine": {"7"}, "X-Ropeline-Visitor": {"evil"}, "X_ropeline_visitor": {"evil"}}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" {
			t.Fatal(string(body), err)
		}
		if tr := <-got; len(tr) != 1 || tr.Get("X-Mine") != "7" {
			t.Errorf("request trailer at the site: %v", tr)
		}
		if tr := res.Trailer; len(tr) != 2 || tr.Get("X-Sum") != "42" || tr.Get("X-Late") != "1" {
			t.Errorf("answer trailer: %v", tr)
		}
	})
}

func TestUpstream_OnResponseSeesOurHeadersAndTheVisitorDoesNot(t *testing.T) {
	var seen atomic.Value
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Ropeline-Session", "end")
		h.Set("X_ropeline_state", "queue")
		h.Set("Alt-Svc", `h3=":443"`)
		h.Add("Set-Cookie", "sid=1; Path=/")
		h.Add("Set-Cookie", "ropeline_tour=evil")
		h.Add("Set-Cookie", "theme=dark")
	}), standConfig{pass: func(p *pass) {
		p.OnResponse = func(res *http.Response) error {
			seen.Store(res.Header.Get("X-Ropeline-Session"))
			res.Header.Add("Set-Cookie", "ropeline_tour=ours")
			return nil
		}
	}})
	res, _ := mustGet(t, httpClient(t, false), s.url)
	if seen.Load() != "end" {
		t.Errorf("OnResponse saw %v", seen.Load())
	}
	if got := strings.Join(res.Header["Set-Cookie"], "|"); got != "sid=1; Path=/|theme=dark|ropeline_tour=ours" {
		t.Errorf("Set-Cookie: %s", got)
	}
	for name := range res.Header {
		if ours(name) || name == "Alt-Svc" {
			t.Errorf("%s reached the visitor", name)
		}
	}
}

func TestUpstream_StreamsBothWaysWithoutBuffering(t *testing.T) {
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		buf := make([]byte, 100)
		for {
			n, err := r.Body.Read(buf)
			if n > 0 {
				_, _ = w.Write(bytes.ToUpper(buf[:n]))
				_ = rc.Flush()
			}
			if err != nil {
				return
			}
		}
	}), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		out, in := io.Pipe()
		defer in.Close()
		res, err := c.Post(s.url, "text/plain", out)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		// Each line goes only when the one before has come back: nothing may wait for the end.
		for i := range 20 {
			want := fmt.Sprintf("LINE %d", i)
			_, _ = io.WriteString(in, strings.ToLower(want))
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Fatalf("got %q %v, want %q", got, err, want)
			}
		}
		_ = in.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("rest %q %v", rest, err)
		}
	})
}

func TestUpstream_SendsEventsAsTheyHappen(t *testing.T) {
	next := make(chan struct{})
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		res, err := c.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for i := range 5 {
			want := fmt.Sprintf("data: %d\n\n", i)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Fatalf("got %q %v, want %q", got, err, want)
			}
			next <- struct{}{}
		}
	})
}

func TestUpstream_CarriesLargeBodiesWhole(t *testing.T) {
	const size = 64 << 20
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = io.CopyN(w, pattern{}, size)
			return
		}
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%x", sum.Sum(nil))
	}), standConfig{})
	sum := sha256.New()
	_, _ = io.CopyN(sum, pattern{}, size)
	want := fmt.Sprintf("%x", sum.Sum(nil))
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		res, err := c.Post(s.url, "application/octet-stream", io.LimitReader(pattern{}, size))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(got) != want {
			t.Errorf("upload: the site got something else: %s", got)
		}
		if res, err = c.Get(s.url); err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		down := sha256.New()
		if n, err := io.Copy(down, res.Body); err != nil || n != size || fmt.Sprintf("%x", down.Sum(nil)) != want {
			t.Errorf("download: %d bytes, %v", n, err)
		}
	})
}

type pattern struct{}

func (pattern) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

func TestUpstream_LeavesOrdinaryAnswersAlone(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("hello, hello, hello"))
	_ = z.Close()
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		case "/move":
			w.Header().Set("Location", "https://pay.test/x?y=1")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "/accept":
			fmt.Fprintf(w, "%q %q", r.Header["Accept-Encoding"], r.Header["User-Agent"])
		default:
			http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader("0123456789"))
		}
	}), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		if res, body := mustGet(t, c, s.url+"/gzip"); body != packed.String() || res.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("compressed body: %q %v", body, res.Header)
		}
		if res, _ := mustGet(t, c, s.url+"/move"); res.StatusCode != 307 || res.Header.Get("Location") != "https://pay.test/x?y=1" {
			t.Errorf("redirect: %d %v", res.StatusCode, res.Header)
		}
		r, _ := http.NewRequest("GET", s.url+"/accept", nil)
		r.Header["User-Agent"] = []string{""}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(body) != "[] []" {
			t.Errorf("headers that the client did not send: %s", body)
		}
		r, _ = http.NewRequest("GET", s.url+"/a", nil)
		r.Header.Set("Range", "bytes=2-4")
		if res, err = c.Do(r); err != nil {
			t.Fatal(err)
		}
		body, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 206 || string(body) != "234" || res.Header.Get("Content-Range") != "bytes 2-4/10" {
			t.Errorf("range: %d %q %v", res.StatusCode, body, res.Header)
		}
		if res, err = c.Head(s.url + "/a"); err != nil {
			t.Fatal(err)
		}
		body, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 200 || len(body) != 0 || res.ContentLength != 10 {
			t.Errorf("HEAD: %d %q %d", res.StatusCode, body, res.ContentLength)
		}
	})
}

func TestUpstream_PassesEarlyHintsWithoutWhatIsNotTheirs(t *testing.T) {
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nSet-Cookie: ropeline_a=1\r\nSet-Cookie: b=2\r\nX-Ropeline-State: x\r\n\r\n" +
			"HTTP/1.1 100 Continue\r\nX-Odd: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		_ = rw.Flush()
	}), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		var hints []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, h))
			return nil
		}})
		r, _ := http.NewRequestWithContext(ctx, "GET", s.url, nil)
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(body) != "ok" || res.Header.Get("Link") != "" {
			t.Errorf("answer: %q %v", body, res.Header)
		}
		if got := strings.Join(hints, "; "); got != "103 map[Link:[</a.css>; rel=preload]]" {
			t.Errorf("hints: %s", got)
		}
	})
	if got := askRaw(t, s.addr, "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.0 200") {
		t.Errorf("HTTP/1.0 client: got %q", got)
	}
}

func TestUpstream_KeepsHeadersSetBeforehandForTheAnswerProper(t *testing.T) {
	up := newUpstream(UpstreamConfig{})
	back := originSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "ok")
	})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Preset", "1")
		u, _ := r.URL.Parse(back)
		up.serve(w, r, pass{Target: u, RawPath: "/"})
	}))
	defer front.Close()
	got := askRaw(t, front.Listener.Addr().String(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	early, proper, _ := strings.Cut(got, "\r\n\r\n")
	if strings.Contains(early, "X-Preset") || !strings.Contains(proper, "X-Preset: 1\r\n") {
		t.Errorf("got %q", got)
	}
}

func TestUpstream_AClientThatLeavesIsTakenFromTheSiteToo(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	var failures atomic.Int32
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(left)
	}), standConfig{pass: func(p *pass) {
		p.OnError = func(http.ResponseWriter, *http.Request, int, string) { failures.Add(1) }
	}})
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", s.url, nil)
	go func() { <-arrived; cancel() }()
	if _, err := httpClient(t, false).Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the site was not told")
	}
	shutdown(t, s)
	if n := failures.Load(); n != 0 {
		t.Errorf("%d errors were reported for a client that left", n)
	}
}

// shutdown waits until every handler has returned.
func shutdown(t *testing.T, s *stand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func TestUpstream_SaysWhatIsWrongWithTheSite(t *testing.T) {
	dead, _ := net.Listen("tcp", "127.0.0.1:0")
	gone := "http://" + dead.Addr().String()
	_ = dead.Close()
	hold := make(chan struct{})
	silent := originSite(t, func(w http.ResponseWriter, r *http.Request) { <-hold })
	t.Cleanup(func() { close(hold) })
	garbage := fixedSite(t, "SSH-2.0-OpenSSH\r\n")
	odd := fixedSite(t, "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n")
	unasked := fixedSite(t, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
	for _, c := range []struct {
		site, want string
	}{{gone, "502 upstream-down"}, {garbage, "502 upstream-down"}, {odd, "502 upstream-down"}, {unasked, "502 upstream-down"}, {silent, "504 upstream-timeout"}} {
		s := newStand(t, c.site, standConfig{up: UpstreamConfig{HeaderTimeout: 100 * time.Millisecond}, pass: func(p *pass) {
			p.OnError = func(w http.ResponseWriter, r *http.Request, status int, slug string) {
				w.WriteHeader(status)
				fmt.Fprintf(w, "%d %s", status, slug)
			}
		}})
		if _, body := mustGet(t, httpClient(t, false), s.url); body != c.want {
			t.Errorf("got %q, want %q", body, c.want)
		}
	}
}

// fixedSite answers each connection's first read with fixed bytes and closes.
func fixedSite(t *testing.T, answer string) string {
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
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestUpstream_NeverRepeatsAPost(t *testing.T) {
	var posts atomic.Int32
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			posts.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}
	}), standConfig{})
	c := httpClient(t, false)
	mustGet(t, c, s.url) // leaves a connection in the pool
	res, err := c.Post(s.url, "text/plain", strings.NewReader("pay"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 502 || posts.Load() != 1 {
		t.Errorf("got %d after %d posts, want 502 after one", res.StatusCode, posts.Load())
	}
}

func TestUpstream_AnAnswerCutShortIsNotPresentedAsWhole(t *testing.T) {
	s := newStand(t, fixedSite(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		res, err := c.Get(s.url)
		if err != nil {
			return // cut before the header: as good
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("got %q as a whole answer", body)
		}
	})
}

func TestUpstream_AnEarlyAnswerDoesNotWaitForTheRestOfTheUpload(t *testing.T) {
	s := newStand(t, fixedSite(t, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch"), standConfig{})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		out, in := io.Pipe()
		defer in.Close()
		go func() { _, _ = in.Write([]byte("a little")) }() // and then nothing more
		r, _ := http.NewRequest("POST", s.url, out)
		r.ContentLength = 1 << 30
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("got %d", res.StatusCode)
		}
	})
}

func TestUpstream_LogsNoTokenAndNoAddress(t *testing.T) {
	var log bytes.Buffer
	dead, _ := net.Listen("tcp", "127.0.0.1:0")
	gone := "http://" + dead.Addr().String()
	_ = dead.Close()
	s := newStand(t, gone, standConfig{up: UpstreamConfig{Logger: slog.New(slog.NewJSONHandler(&log, nil))}})
	askRaw(t, s.addr, "GET /p?token=sesame HTTP/1.1\r\nHost: a.test\r\nX-Queue-Token: sesame\r\nCookie: ropeline_x=sesame\r\nConnection: close\r\n\r\n")
	shutdown(t, s)
	if log.Len() == 0 || strings.Contains(log.String(), "sesame") {
		t.Errorf("log: %s", log.String())
	}
}
