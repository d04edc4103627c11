package token

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"ropeline/internal/recent"
)

// maxSize is the greatest length of a token in bytes: about what a browser keeps of a cookie (RFC 6265 section 6.1).
const maxSize = 4096

// leeway is how far the clocks of two nodes may differ.
const leeway = 2 * time.Second

// Config tunes an [Authority]. Each field's zero value selects its default.
type Config struct {
	Now       func() time.Time // default: time.Now
	CacheSize int              // most verified tokens remembered, about 1 KB each; default 65536; below 0: none
	MaxLife   time.Duration    // longest time from issue to expiry, in whole seconds; default (also below 0): 24h
}

// Authority signs and verifies access tokens. Safe for concurrent use.
type Authority struct {
	now       func() time.Time
	cacheSize int
	maxLife   time.Duration
	tenure    atomic.Pointer[tenure]
}

// tenure is the time of one set of keys. The tokens verified are remembered here and not in the Authority: a call that
// began before a change of keys writes its answer where nobody looks any more.
type tenure struct {
	keys *Keys
	seen *recent.Cache[seenKey, *seenToken]
}

// New returns an Authority with these keys; with none, it refuses every token and signs none.
func New(keys *Keys, cfg Config) *Authority {
	a := &Authority{now: cfg.Now, cacheSize: cfg.CacheSize, maxLife: cfg.MaxLife}
	if a.now == nil {
		a.now = time.Now
	}
	if a.cacheSize == 0 {
		a.cacheSize = 65536
	}
	if a.maxLife <= 0 {
		a.maxLife = 24 * time.Hour
	}
	a.SetKeys(keys)
	return a
}

// Keys returns the keys in use.
func (a *Authority) Keys() *Keys { return a.tenure.Load().keys }

// SetKeys changes the keys and forgets which tokens were verified. Once it has returned, no call of Verify that begins
// accepts a token of a key that is not in keys.
func (a *Authority) SetKeys(keys *Keys) {
	a.tenure.Store(&tenure{keys: keys, seen: recent.New[seenKey, *seenToken](a.cacheSize)})
}

// Sign returns an access token for c, signed with the first key.
//
// It returns [ErrNoKeys] without a key that can sign, and [ErrClaims] for claims that Verify would refuse: an empty room, visitor or
// id, a negative number, a life that is not positive or is longer than MaxLife, a token above 4 KiB.
func (a *Authority) Sign(c Claims) (string, error) {
	key := a.Keys().first()
	if key == nil || key.sign == nil {
		return "", ErrNoKeys
	}
	p, err := payloadOf(c, a.now(), a.maxLife)
	if err != nil {
		return "", err
	}
	unsigned := jwt.Token{Header: key.header, Claims: &p, Method: key.method}
	signed, err := unsigned.SignedString(key.sign)
	if err != nil {
		return "", fmt.Errorf("token: sign with key %q: %w", key.id, err)
	}
	if len(signed) > maxSize {
		return "", refuse(ErrClaims, "the token would be longer than 4 KiB")
	}
	return signed, nil
}
