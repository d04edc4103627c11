package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// RemoteConfig tunes a [Remote]. Each field's zero value selects its default.
type RemoteConfig struct {
	Verify  Config        // how tokens are judged; its clock also times the fetches that unknown keys cause
	Client  *http.Client  // default: one of its own; redirects are never followed
	Timeout time.Duration // longest time for one fetch; default 3s
	Every   time.Duration // between fetches; default 5m. After a failed one: 1s at first, doubled each time up to Every
	Unknown time.Duration // least time between fetches that tokens of unknown keys cause; default 30s
	Logger  *slog.Logger  // default: discards
}

// Remote verifies access tokens with the public keys that an edge publishes at an address, for a program that must not have
// the keys that sign. It keeps the keys it has while the address does not answer, or answers with no set of keys (see
// [Public]). Safe for concurrent use.
type Remote struct {
	address   string
	cfg       RemoteConfig
	authority *Authority

	mu      sync.Mutex
	asked   time.Time     // when a token of an unknown key last caused a fetch
	pending chan struct{} // of the fetch that one is causing: closed at its end; nil for none

	fetching sync.Mutex // one fetch at a time, so that an old answer never replaces a newer one
}

// NewRemote returns a Remote without keys, which refuses every token until Run or Fetch has got some. The address is an
// https URL, or http on a loopback address; anything else is refused.
func NewRemote(address string, cfg RemoteConfig) (*Remote, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("token: key address: not a URL")
	case u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return nil, fmt.Errorf("token: key address %s: must be an https URL without a user, or http on a loopback address", u.Redacted())
	}
	cfg.Timeout, cfg.Every = cmp.Or(cfg.Timeout, 3*time.Second), cmp.Or(cfg.Every, 5*time.Minute)
	cfg.Unknown = cmp.Or(cfg.Unknown, 30*time.Second)
	if cfg.Verify.Now == nil {
		cfg.Verify.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.Client = &client
	return &Remote{address: u.String(), cfg: cfg, authority: New(nil, cfg.Verify)}, nil
}

// loopback reports whether a host can only be this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Run keeps the keys fresh until ctx ends, and then returns nil.
func (r *Remote) Run(ctx context.Context) error {
	wait := time.Duration(0)
	for {
		if err := r.Fetch(ctx); err != nil && ctx.Err() == nil {
			wait = min(max(2*wait, time.Second), r.cfg.Every)
			r.cfg.Logger.Warn("public keys not fetched", "err", err, "keys", r.Keys().String(), "retry", wait)
		} else {
			wait = 0
		}
		pause := cmp.Or(wait, r.cfg.Every)
		select {
		case <-time.After(pause - rand.N(pause/10+1)): // not all nodes at once
		case <-ctx.Done():
			return nil
		}
	}
}

// Keys returns the keys in use; nil before the first fetch that succeeded.
func (r *Remote) Keys() *Keys { return r.authority.Keys() }

// Verify is [Authority.Verify] with the keys in use. A token whose key is unknown has the keys fetched anew, once for all such
// tokens and seldom, and waits for that, for no longer than two fetches may take.
func (r *Remote) Verify(room, tok string) (Claims, error) {
	c, err := r.authority.Verify(room, tok)
	if !errors.Is(err, ErrKey) {
		return c, err
	}
	r.fetchUnknown()
	return r.authority.Verify(room, tok) // even if nothing was fetched: another fetch may have ended meanwhile
}

// fetchUnknown fetches the keys for the sake of an unknown one, unless that was done lately, or waits for such a fetch under way.
func (r *Remote) fetchUnknown() {
	r.mu.Lock()
	done := r.pending
	if done != nil {
		r.mu.Unlock()
		<-done
		return
	}
	now := r.cfg.Verify.Now()
	if !r.asked.IsZero() && now.Sub(r.asked) < r.cfg.Unknown && !now.Before(r.asked) {
		r.mu.Unlock()
		return
	}
	done = make(chan struct{})
	r.asked, r.pending = now, done
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.pending = nil
		r.mu.Unlock()
		close(done)
	}()
	if err := r.Fetch(context.Background()); err != nil {
		r.cfg.Logger.Warn("public keys not fetched for a key that is unknown", "err", err, "keys", r.Keys().String())
	}
}

// Fetch gets the keys now. An error leaves those in use; it names the address and nothing of the answer but its status and
// what [Public] says of it.
func (r *Remote) Fetch(ctx context.Context) error {
	r.fetching.Lock()
	defer r.fetching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	keys, err := r.get(ctx)
	if err != nil {
		return fmt.Errorf("fetch public keys from %s: %w", r.address, err)
	}
	if old := r.Keys(); string(old.PublicJWKS()) != string(keys.PublicJWKS()) { // or what was verified would be forgotten
		r.authority.SetKeys(keys)
		r.cfg.Logger.Info("public keys fetched", "keys", keys.String(), "before", old.String())
	}
	return nil
}

// mostKeys bounds the answer, in bytes.
const mostKeys = 256 << 10

func (r *Remote) get(ctx context.Context) (*Keys, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := r.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, mostKeys+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > mostKeys:
		return nil, fmt.Errorf("more than %d KiB", mostKeys>>10)
	}
	return Public(body)
}
