package token

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
)

// Derived is a secret of 32 bytes that belongs to one key and one purpose.
type Derived struct {
	KeyID string   // kid of the key it comes from
	Key   [32]byte `json:"-"`
}

// String keeps the secret out of logs.
func (d Derived) String() string { return "derived(" + d.KeyID + ")" }

// GoString keeps the secret out of %#v.
func (d Derived) GoString() string { return d.String() }

// Derive returns a secret for the purpose from each key, in the order of the set: the first one is to be used, the
// others to recognize what was made with them. Secrets of two purposes say nothing about each other or about the key. Keys
// that only verify give none.
//
// It is HKDF-SHA256 (RFC 5869) of the Ed25519 seed or the HS256 secret, without salt, with the info
// "ropeline/v1/" + purpose. Changing any of it voids every place token in the world, so a test holds the bytes.
func (k *Keys) Derive(purpose string) []Derived {
	derived := make([]Derived, 0, len(k.all()))
	for _, key := range k.all() {
		if key.sign == nil {
			continue
		}
		d := Derived{KeyID: key.id}
		secret, err := hkdf.Key(sha256.New, key.secret(), nil, "ropeline/v1/"+purpose, len(d.Key))
		if err != nil { // only for a length above 255 hashes, or a secret too short for FIPS 140
			panic("token: derive from key " + key.id + ": " + err.Error())
		}
		copy(d.Key[:], secret)
		derived = append(derived, d)
	}
	return derived
}

// secret returns the bytes that nobody else knows.
func (k *key) secret() []byte {
	if private, ok := k.sign.(ed25519.PrivateKey); ok {
		return private.Seed()
	}
	return k.sign.([]byte)
}
