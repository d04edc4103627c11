package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A customer key proves that its bearer is a customer: "c1." customer "." HMAC-SHA256, both in base64url without padding.
// A client may have several, of the sessions that it bought in.
const (
	keyHeader  = "X-Customer-Key"
	keyCookie  = "ropeline_customer"   // the edge lets no other upstream than the core see it
	hostCookie = "__Host-" + keyCookie // its name over TLS: no other host can plant one
	keyPrefix  = "c1."
	keyPurpose = "ropeline customer key 1\x00"
	mostKeys   = 5
	keyLife    = 90 * 24 * time.Hour
	keysApart  = "~" // between the keys of a cookie
)

// keyring makes customer keys with its first secret and believes those made with any.
type keyring struct{ secrets [][]byte }

// make returns the key of a customer.
func (k keyring) make(customer string) string { return sign(k.secrets[0], customer) }

// customer returns whose key it is; ok is false if it is nobody's. A key is ours if it is, byte for byte, what we would make.
func (k keyring) customer(key string) (customer string, ok bool) {
	rest, ok := strings.CutPrefix(key, keyPrefix)
	name, _, cut := strings.Cut(rest, ".")
	if !ok || !cut || len(key) > 400 {
		return "", false
	}
	who, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || len(who) < 1 || len(who) > 200 {
		return "", false
	}
	for _, secret := range k.secrets {
		if hmac.Equal([]byte(key), []byte(sign(secret, string(who)))) {
			return string(who), true
		}
	}
	return "", false
}

func sign(secret []byte, customer string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(keyPurpose + customer))
	encoding := base64.RawURLEncoding
	return keyPrefix + encoding.EncodeToString([]byte(customer)) + "." + encoding.EncodeToString(mac.Sum(nil))
}

// customers are those whose keys a request brings, newest first: of the header, then of the cookie, each once and five at most.
func (k keyring) customers(r *http.Request, tls bool) []string {
	var keys []string
	for _, value := range r.Header.Values(keyHeader) {
		for key := range strings.SplitSeq(value, ",") {
			keys = append(keys, strings.TrimSpace(key))
		}
	}
	for _, cookie := range r.CookiesNamed(cookieName(tls)) {
		keys = append(keys, strings.Split(cookie.Value, keysApart)...)
	}
	var all []string
	for _, key := range keys[:min(len(keys), 2*mostKeys)] { // more are not ours, and each costs a digest
		if who, ok := k.customer(key); ok && !slices.Contains(all, who) && len(all) < mostKeys {
			all = append(all, who)
		}
	}
	return all
}

// giveKey lets the client keep the customer's key, in front of those that it has.
func (q *request) giveKey(customer string) {
	keys := []string{q.api.keys.make(customer)}
	for _, c := range q.keyed {
		if c != customer && len(keys) < mostKeys {
			keys = append(keys, q.api.keys.make(c))
		}
	}
	h, tls := q.w.Header(), q.api.cfg.TLS(q.Request)
	h.Set(keyHeader, keys[0])
	h.Del("Set-Cookie")
	http.SetCookie(q.w, &http.Cookie{
		Name: cookieName(tls), Value: strings.Join(keys, keysApart), Path: "/", MaxAge: int(keyLife / time.Second),
		HttpOnly: true, Secure: tls, SameSite: http.SameSiteLaxMode,
	})
}

func cookieName(tls bool) string {
	if tls {
		return hostCookie
	}
	return keyCookie
}

// newCustomer names somebody whom no room let in and who has no key: 128 bits that nobody guesses.
func newCustomer() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return "guest-" + base64.RawURLEncoding.EncodeToString(b[:])
}

func digest(s string) [32]byte { return sha256.Sum256([]byte(s)) }
