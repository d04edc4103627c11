package proxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServer_RefusesBadRequests sends the bytes of bad requests through a whole edge. Nothing of the refused
// ones may reach the site.
func TestServer_RefusesBadRequests(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{server: ServerConfig{DisableHTTP2: true}})
	const host = "Host: a.test\r\n"
	for _, c := range []struct{ name, raw, want string }{
		{"two lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
		{"length and chunked", "POST / HTTP/1.1\r\n" + host + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"chunked and length", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n", "400"},
		{"length +2", "POST / HTTP/1.1\r\n" + host + "Content-Length: +2\r\n\r\nab", "400"},
		{"length 0x2", "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x2\r\n\r\nab", "400"},
		{"length empty", "POST / HTTP/1.1\r\n" + host + "Content-Length: \r\n\r\nab", "400"},
		{"length list", "POST / HTTP/1.1\r\n" + host + "Content-Length: 2, 2\r\n\r\nab", "400"},
		{"length -1", "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\nab", "400"},
		{"length of 20 digits", "POST / HTTP/1.1\r\n" + host + "Content-Length: 20000000000000000000\r\n\r\nab", "400"},
		{"coding twice", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"coding ,chunked", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", "400"},
		{"coding gzip, chunked", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400"},
		{"coding xchunked", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400"},
		{"coding with VT", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"},
		{"coding with space before the colon", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"},
		{"HTTP/1.0 chunked", "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"expectation", "POST / HTTP/1.1\r\n" + host + "Expect: y 100-continue\r\nContent-Length: 2\r\n\r\nab", "417"},
		{"other expectation", "POST / HTTP/1.1\r\n" + host + "Expect: tea\r\nContent-Length: 2\r\n\r\nab", "417"},
		{"folded expectation", "POST / HTTP/1.1\r\n" + host + "Expect:\r\n 100-continue\r\nContent-Length: 2\r\n\r\nab", "400"},
		{"folded field", "GET / HTTP/1.1\r\n" + host + "X-A: b\r\n c\r\n\r\n", "400"},
		{"NUL in a value", "GET / HTTP/1.1\r\n" + host + "X-A: b\x00\r\n\r\n", "400"},
		{"bare CR in a value", "GET / HTTP/1.1\r\n" + host + "X-A: b\rc\r\n\r\n", "400"},
		{"empty name", "GET / HTTP/1.1\r\n" + host + ": b\r\n\r\n", "400"},
		{"no colon", "GET / HTTP/1.1\r\n" + host + "X-A\r\n\r\n", "400"},
		{"space before the first field", "GET / HTTP/1.1\r\n " + host + "\r\n", "400"},
		{"bare LF everywhere", "GET / HTTP/1.1\nHost: a.test\n\n", "400"},
		{"bare LF once", "GET / HTTP/1.1\r\nHost: a.test\n\r\n", "400"},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"two Hosts", "GET / HTTP/1.1\r\n" + host + host + "\r\n", "400"},
		{"user in Host", "GET / HTTP/1.1\r\nHost: a.test@evil\r\n\r\n", "400"},
		{"path in Host", "GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n", "400"},
		{"space in Host", "GET / HTTP/1.1\r\nHost: a.test b\r\n\r\n", "400"},
		{"empty Host", "GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", "400"},
		{"absolute form", "GET http://evil.test/tickets HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "400"},
		{"CONNECT", "CONNECT internal:22 HTTP/1.1\r\nHost: internal:22\r\n\r\n", "405"},
		{"CONNECT with a path", "CONNECT / HTTP/1.1\r\n" + host + "\r\n", "405"},
		{"TRACE", "TRACE / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "405"},
		{"lower case method", "get / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "405"},
		{"odd method", "GE\"T / HTTP/1.1\r\n" + host + "\r\n", "400"},
		{"PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
		{"asterisk", "GET * HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "400"},
		{"OPTIONS asterisk", "OPTIONS * HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "400"},
		{"two slashes", "GET //tickets/1 HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "400"},
		{"head of 40 KiB", "GET / HTTP/1.1\r\n" + host + "X-A: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", "431"},
		{"5000 fields", "GET / HTTP/1.1\r\n" + host + strings.Repeat("a: b\r\n", 5000) + "\r\n", "431"},
		{"201 fields", "GET / HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", 200) + host + "\r\n", "431"},
		{"name of 70 KiB", "GET / HTTP/1.1\r\n" + host + strings.Repeat("a", 70<<10) + ": b\r\n\r\n", "431"},
	} {
		got := askRaw(t, s.addr, c.raw)
		if statusOf(got) != c.want {
			t.Errorf("%s: got %.100q, want %s", c.name, got, c.want)
		}
		if head := rec.taken(); head != "" {
			t.Errorf("%s: %.100q reached the site", c.name, head)
		}
	}
}

func TestServer_BadChunksAreTheClientsFault(t *testing.T) {
	sizes := make(chan error, 1)
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		sizes <- err
	}), standConfig{})
	for _, chunk := range []string{"0x1\r\na\r\n0\r\n\r\n", "-1\r\na\r\n0\r\n\r\n", "\r\na\r\n0\r\n\r\n", "1\na\r\n0\r\n\r\n", "1;a\nb\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "0\r\nX-A: b\r\n c\r\n\r\n", "0\r\nX-A: b\n\r\n"} {
		got := askRaw(t, s.addr, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"+chunk)
		if statusOf(got) != "400" {
			t.Errorf("%q: got %.100q, want 400", chunk, got)
		}
		select {
		case err := <-sizes:
			if err == nil {
				t.Errorf("%q: the site took the body for whole", chunk)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q: the site still waits", chunk)
		}
	}
}

func TestServer_PipelinedRequestsAreJudgedOneByOneInOrder(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{})
	got := askRaw(t, s.addr, "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\n\n\n\n\nGET /3 HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\nGET /4 HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if strings.Count(got, "HTTP/1.1 200") != 2 || strings.Count(got, "HTTP/1.1 400") != 1 || strings.Index(got, "400") < strings.LastIndex(got, "200") {
		t.Errorf("got %q", got)
	}
	if asked := rec.taken(); strings.Count(asked, "HTTP/1.1") != 2 || strings.Contains(asked, "/3") || strings.Contains(asked, "/4") {
		t.Errorf("the site was asked %q", asked)
	}
}

func TestServer_StalledUploadIs408AndNotTheSitesFailure(t *testing.T) {
	aborted := make(chan error, 1)
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		aborted <- err
	}), standConfig{server: ServerConfig{BodyIdle: 200 * time.Millisecond}})
	got := askRaw(t, s.addr, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nabc")
	if statusOf(got) != "408" {
		t.Errorf("got %q, want 408", got)
	}
	if err := <-aborted; err == nil {
		t.Error("the site took the body for whole")
	}
}

func TestServer_SlowButMovingUploadAndDownloadLive(t *testing.T) {
	const idle, pause = time.Second, time.Second / 4
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		// Longer than the idle time before the answer: the site is slow, not the client.
		time.Sleep(idle * 5 / 4)
		fmt.Fprint(w, n, err)
		for range 5 {
			_ = http.NewResponseController(w).Flush()
			time.Sleep(pause)
			fmt.Fprint(w, ".")
		}
	}), standConfig{server: ServerConfig{BodyIdle: idle}})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		for range 2 { // the second time on the same connection
			out, in := io.Pipe()
			go func() {
				for range 5 {
					_, _ = io.WriteString(in, "x")
					time.Sleep(pause)
				}
				_ = in.Close()
			}()
			res, err := c.Post(s.url, "text/plain", out)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || string(body) != "5 <nil>....." {
				t.Errorf("got %q %v", body, err)
			}
		}
	})
}

func TestServer_EventStreamMayBeSilentForLong(t *testing.T) {
	const idle = 100 * time.Millisecond
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(4 * idle)
		}
	}), standConfig{server: ServerConfig{BodyIdle: idle}})
	overHTTP1And2(t, func(t *testing.T, c *http.Client) {
		if _, body := mustGet(t, c, s.url); body != "data: x\n\ndata: x\n\n" {
			t.Errorf("got %q", body)
		}
	})
}

func TestServer_ClientThatDoesNotReadIsCut(t *testing.T) {
	cut := make(chan struct{})
	s := newStand(t, originSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, pattern{})
		close(cut)
	}), standConfig{server: ServerConfig{BodyIdle: 200 * time.Millisecond}})
	c := dialRaw(t, s.addr)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	select {
	case <-cut:
	case <-time.After(15 * time.Second):
		t.Error("the site still sends")
	}
}

func TestServer_SlowHeadIs408EvenBehindHalfAPreface(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{server: ServerConfig{HeaderTimeout: 200 * time.Millisecond}})
	for _, begun := range []string{"GET / HTTP/1.1\r\nHost: a", "GE", "PRI", "PRI * HTTP/2.0\r\n\r\nS"} {
		c := dialRaw(t, s.addr)
		_, _ = io.WriteString(c, begun)
		got, err := io.ReadAll(c)
		if err != nil {
			t.Errorf("%q: %v", begun, err)
		}
		if want := "408"; statusOf(string(got)) != want && !strings.HasPrefix(begun, "PRI *") {
			t.Errorf("%q: got %q, want %s", begun, got, want)
		}
	}
	c := dialRaw(t, s.addr) // says nothing: closed without a word
	if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
		t.Errorf("silent client: got %q %v", got, err)
	}
}

func TestServer_HeldBackBodyOfARefusedRequestDoesNotHoldTheAnswer(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{routes: []Route{{Room: "r"}}})
	for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
		c := dialRaw(t, s.addr)
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n"+expect+"\r\n")
		got := make([]byte, 12)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "HTTP/1.1 403" {
			t.Errorf("%q: got %q %v", expect, got, err)
		}
	}
}

func TestServer_ExpectContinueIsAnsweredHereAndNotForwarded(t *testing.T) {
	rec := newRecorder(t)
	s := newStand(t, rec.url, standConfig{})
	c := dialRaw(t, s.addr)
	for range 20 {
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
		got := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
		if _, err := io.ReadFull(c, got); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 100") {
			t.Fatalf("got %q %v", got, err)
		}
		_, _ = io.WriteString(c, "ab")
		answer := make([]byte, 512)
		n, err := c.Read(answer)
		if err != nil || statusOf(string(answer[:n])) != "200" {
			t.Fatalf("got %q %v", answer[:n], err)
		}
		if !strings.HasSuffix(string(answer[:n]), "ok") { // head and body came apart
			if _, err := c.Read(answer); err != nil {
				t.Fatal(err)
			}
		}
	}
	if head := rec.taken(); strings.Contains(head, "Expect") {
		t.Errorf("the site saw %q", head)
	}
}

func TestServer_MoreConnectionsThanTheLimitWait(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{server: ServerConfig{MaxConns: 2}})
	const get = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
	var open []io.Closer
	for range 2 {
		c := dialRaw(t, s.addr)
		_, _ = io.WriteString(c, get[:20]) // not the whole head yet: the connection is in use
		open = append(open, c)
	}
	third := dialRaw(t, s.addr)
	_, _ = io.WriteString(third, get)
	_ = third.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := third.Read(make([]byte, 512)); err == nil {
		t.Fatalf("a third connection was answered with %d bytes", n)
	}
	_ = open[0].Close()
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := third.Read(make([]byte, 512)); err != nil {
		t.Errorf("after one left: %v", err)
	}
}

func TestServer_TooManyFieldsOverHTTP2(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{})
	r, _ := http.NewRequest("GET", s.url, nil)
	for i := range 250 {
		r.Header.Set(fmt.Sprint("X-", i), "v")
	}
	res, err := httpClient(t, true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 431 {
		t.Errorf("got %d, want 431", res.StatusCode)
	}
}

func TestServer_HTTP2CanBeSwitchedOff(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{server: ServerConfig{DisableHTTP2: true}})
	if res, err := httpClient(t, true).Get(s.url); err == nil {
		_ = res.Body.Close()
		t.Errorf("h2c was answered with %d", res.StatusCode)
	}
}

func TestServer_LogsPanicsWithoutAddresses(t *testing.T) {
	var out bytes.Buffer
	l := serverLog{slog.New(slog.NewTextHandler(&out, nil))}
	fmt.Fprint(l, "http: panic serving 203.0.113.9:1234: boom\ngoroutine 1")
	fmt.Fprint(l, "http: TLS handshake error from 203.0.113.9:1234: EOF")
	if got := out.String(); !strings.Contains(got, "boom") || strings.Contains(got, "203.0.113.9") {
		t.Errorf("log: %s", got)
	}
}

// writeCertificate makes a self-signed pair for 127.0.0.1 with a serial number.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}, &x509.Certificate{SerialNumber: big.NewInt(serial)}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, _ := x509.MarshalPKCS8PrivateKey(key)
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func tlsStand(t *testing.T) (s *stand, rec *recorder) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key, 1)
	rec = newRecorder(t)
	return newStand(t, rec.url, standConfig{server: ServerConfig{CertFile: cert, KeyFile: key}}), rec
}

func TestServer_TLSSpeaksBothVersionsAndJudgesHTTP1Strictly(t *testing.T) {
	s, rec := tlsStand(t)
	for proto, major := range map[string]int{"h2": 2, "http/1.1": 1} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(major == 1)
		tr.Protocols.SetHTTP2(major == 2)
		t.Cleanup(tr.CloseIdleConnections)
		res, _ := mustGet(t, &http.Client{Transport: tr}, s.url+"/x")
		if res.StatusCode != 200 || res.ProtoMajor != major {
			t.Errorf("%s: got %d over %s", proto, res.StatusCode, res.Proto)
		}
		if head := rec.taken(); !strings.Contains(head, "X-Forwarded-Proto: https\r\n") {
			t.Errorf("%s: the site saw %q", proto, head)
		}
	}
	for _, raw := range []string{"GET / HTTP/1.1\nHost: a.test\n\n", "GET / HTTP/1.1\r\nHost: a.test\r\nX: y\r\n z\r\n\r\n"} {
		c := tls.Client(dialRaw(t, s.addr), &tls.Config{InsecureSkipVerify: true})
		_, _ = io.WriteString(c, raw)
		if got, _ := io.ReadAll(c); statusOf(string(got)) != "400" {
			t.Errorf("%q: got %q", raw, got)
		}
	}
	if got := askRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); statusOf(got) != "400" {
		t.Errorf("plain HTTP: got %q", got)
	}
}

func TestServer_CertificateIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 1)
	c, err := loadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		c.checked = time.Time{}
		pair, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, _ := x509.ParseCertificate(pair.Certificate[0])
		return leaf.SerialNumber.String()
	}
	if err := os.WriteFile(keyFile, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != "1" {
		t.Errorf("while the pair does not fit: got serial %s, want the old one", got)
	}
	writeCertificate(t, certFile, keyFile, 2)
	if got := serial(); got != "2" {
		t.Errorf("after the change: got serial %s, want 2", got)
	}
	if _, err := NewServer(nil, ServerConfig{CertFile: certFile, KeyFile: filepath.Join(dir, "none")}); err == nil {
		t.Error("a server with a missing key starts")
	}
}

func TestServer_HalfOfTheNextHeadDoesNotDisturbTheAnswer(t *testing.T) {
	s := newStand(t, newRecorder(t).url, standConfig{})
	c := dialRaw(t, s.addr)
	_, _ = io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: ")
	answer := make([]byte, 1024)
	n, err := c.Read(answer)
	if err != nil || statusOf(string(answer[:n])) != "200" {
		t.Fatalf("got %q %v", answer[:n], err)
	}
	_, _ = io.WriteString(c, "a.test\r\nConnection: close\r\n\r\n")
	if rest, _ := io.ReadAll(c); !strings.Contains(string(rest), "HTTP/1.1 200") || strings.Contains(string(rest), "408") {
		t.Errorf("the next answer: %q", rest)
	}
}
