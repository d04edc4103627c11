package token

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// publisher is an edge as far as a Remote sees it.
type publisher struct {
	*httptest.Server
	fetches atomic.Int64
	mu      sync.Mutex
	answer  http.HandlerFunc
}

func newPublisher(t *testing.T) *publisher {
	p := &publisher{}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) serve(w http.ResponseWriter, r *http.Request) {
	p.fetches.Add(1)
	p.mu.Lock()
	answer := p.answer
	p.mu.Unlock()
	answer(w, r)
}

func (p *publisher) set(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *publisher) publish(k *Keys) {
	p.set(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(k.PublicJWKS()) })
}

// ticking is a clock that a test moves.
type ticking struct{ at atomic.Int64 }

func (c *ticking) now() time.Time { return noon.Add(time.Duration(c.at.Load())) }

func (c *ticking) pass(d time.Duration) { c.at.Add(int64(d)) }

func newRemote(t *testing.T, address string, c *ticking) *Remote {
	t.Helper()
	r, err := NewRemote(address, RemoteConfig{Verify: Config{Now: c.now}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func signed(t *testing.T, k *Keys, c *ticking) string {
	t.Helper()
	claims := admitted()
	claims.Issued, claims.Expires = c.now(), c.now().Add(time.Hour)
	return mustSign(t, New(k, Config{Now: c.now}), claims)
}

func TestRemote_TakesOnlySafeAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"https://tickets.example.com/_ropeline/.well-known/jwks.json": true,
		"http://127.0.0.1:8080/jwks":                                  true, "http://[::1]:8080/jwks": true, "http://localhost/jwks": true, "http://127.1.2.3/": true,
		"http://tickets.example.com/jwks": false, "http://10.0.0.1/jwks": false, "http://localhost.example.com/": false, "http://127.0.0.1.example.com/": false,
		"ftp://127.0.0.1/": false, "file:///etc/keys": false, "jwks.json": false, "": false, "https://": false, "https://u:secret@a.example/": false, "http://127.0.0.1:x/": false,
	} {
		_, err := NewRemote(address, RemoteConfig{})
		if (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

func TestRemote_VerifiesWithThePublishedKeys(t *testing.T) {
	keys, clock, p := must(Generate(EdDSA)), &ticking{}, newPublisher(t)
	p.publish(keys)
	r := newRemote(t, p.URL, clock)
	if r.Keys() != nil {
		t.Errorf("keys before the first fetch: %v", r.Keys())
	}
	tok := signed(t, keys, clock)
	if err := r.Fetch(context.Background()); err != nil {
		t.Fatal(err)
	}
	c, err := r.Verify("spring-tour", tok)
	if err != nil || c.Visitor != "v-1" || c.ID != admitted().ID {
		t.Errorf("Verify = %+v, %v", c, err)
	}
	for room, want := range map[string]error{"other": ErrRoom, "": ErrRoom} {
		if _, err := r.Verify(room, tok); !errors.Is(err, want) {
			t.Errorf("room %q: %v, want %v", room, err, want)
		}
	}
	clock.pass(2 * time.Hour)
	if _, err := r.Verify("spring-tour", tok); !errors.Is(err, ErrExpired) {
		t.Errorf("later: %v, want %v", err, ErrExpired)
	}
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1: only unknown keys cause one", n)
	}
}

func TestRemote_AnUnknownKeyCausesAFetchAtMostEveryThirtySeconds(t *testing.T) {
	first, clock, p := must(Generate(EdDSA)), &ticking{}, newPublisher(t)
	p.publish(first)
	r := newRemote(t, p.URL, clock)
	refused := func(tok string, fetches int64) {
		t.Helper()
		if _, err := r.Verify("spring-tour", tok); !errors.Is(err, ErrKey) {
			t.Errorf("got %v, want %v", err, ErrKey)
		}
		if n := p.fetches.Load(); n != fetches {
			t.Errorf("%d fetches, want %d", n, fetches)
		}
	}
	accepted := func(tok string, fetches int64) {
		t.Helper()
		if _, err := r.Verify("spring-tour", tok); err != nil {
			t.Error(err)
		}
		if n := p.fetches.Load(); n != fetches {
			t.Errorf("%d fetches, want %d", n, fetches)
		}
	}
	accepted(signed(t, first, clock), 1) // the first token of all finds no keys
	stranger := signed(t, must(Generate(EdDSA)), clock)
	for range 100 {
		refused(stranger, 1)
	}
	second, err := first.Rotate(EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	p.publish(second)
	refused(signed(t, second, clock), 1)
	clock.pass(30 * time.Second)
	accepted(signed(t, second, clock), 2)
	accepted(signed(t, first, clock), 2)
	clock.pass(29 * time.Second)
	refused(stranger, 2)
	clock.pass(time.Second)
	refused(stranger, 3)
	clock.pass(time.Minute)
	for _, tok := range []string{"", "x", "a.b.c", signed(t, must(Generate(HS256)), clock)[:50]} { // no key is named
		if _, err := r.Verify("spring-tour", tok); err == nil || errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", tok, err)
		}
	}
	if n := p.fetches.Load(); n != 3 {
		t.Errorf("%d fetches, want 3", n)
	}
}

func TestRemote_ManyTokensOfANewKeyWaitForOneFetch(t *testing.T) {
	keys, clock, p := must(Generate(EdDSA)), &ticking{}, newPublisher(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	p.set(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = w.Write(keys.PublicJWKS())
	})
	r, tok := newRemote(t, p.URL, clock), signed(t, keys, clock)
	var all sync.WaitGroup
	verify := func() {
		if _, err := r.Verify("spring-tour", tok); err != nil {
			t.Error(err)
		}
	}
	all.Go(verify)
	<-asked
	for range 50 {
		all.Go(verify)
	}
	close(answer)
	all.Wait()
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

func TestRemote_KeepsItsKeysWhenAFetchFails(t *testing.T) {
	keys, clock, p := must(Generate(EdDSA)), &ticking{}, newPublisher(t)
	p.publish(keys)
	r, tok := newRemote(t, p.URL, clock), signed(t, keys, clock)
	if err := r.Fetch(context.Background()); err != nil {
		t.Fatal(err)
	}
	elsewhere := newPublisher(t)
	elsewhere.publish(must(Generate(EdDSA)))
	for want, answer := range map[string]http.HandlerFunc{
		"status 500":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"status 302":             func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"not a JWK set":          func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		`it has no "keys"`:       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") },
		"sign with EdDSA":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(must(Generate(HS256)).PublicJWKS()) },
		"must not be published":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(mustJSON(keys)) },
		"more than 256 KiB":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
		"EOF":                    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no Ed25519 key: HS256 ": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keys":[]}`) },
	} {
		p.set(answer)
		err := r.Fetch(context.Background())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), p.URL) {
			t.Errorf("error %v, want one with %q and the address", err, want)
		}
		if _, err := r.Verify("spring-tour", tok); err != nil {
			t.Errorf("after %s: %v", want, err)
		}
	}
	if n := elsewhere.fetches.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	p.Close()
	if err := r.Fetch(context.Background()); err == nil {
		t.Error("nobody answers, but there was no error")
	}
	if _, err := r.Verify("spring-tour", tok); err != nil {
		t.Error(err)
	}
}

func mustJSON(k *Keys) []byte {
	b, err := k.JSON()
	if err != nil {
		panic(err)
	}
	return b
}

func TestRemote_RunFetchesAgainAndAgain(t *testing.T) {
	first, clock, p := must(Generate(EdDSA)), &ticking{}, newPublisher(t)
	p.publish(first)
	var book strings.Builder
	r, err := NewRemote(p.URL, RemoteConfig{
		Verify: Config{Now: clock.now}, Every: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&book, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	until("the keys", func() bool { return r.Keys().String() == first.String() })
	n := p.fetches.Load()
	until("more fetches", func() bool { return p.fetches.Load() > n+3 })

	// A key that is gone from the address is refused, also for tokens seen before.
	old := signed(t, first, clock)
	if _, err := r.Verify("spring-tour", old); err != nil {
		t.Error(err)
	}
	p.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	n = p.fetches.Load()
	until("a fetch that fails", func() bool { return p.fetches.Load() > n+1 })
	if _, err := r.Verify("spring-tour", old); err != nil {
		t.Errorf("while the address fails: %v", err)
	}
	second := must(Generate(EdDSA))
	p.publish(second)
	until("the other keys", func() bool { return r.Keys().String() == second.String() })
	if _, err := r.Verify("spring-tour", old); !errors.Is(err, ErrKey) {
		t.Errorf("got %v, want %v", err, ErrKey)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("Run = %v", err)
	}
	if log := book.String(); !strings.Contains(log, "public keys not fetched") || strings.Count(log, "public keys fetched") != 2 {
		t.Errorf("log:\n%s", log)
	}
}
