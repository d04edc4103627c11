package token

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// The algorithms a key can have.
const (
	EdDSA = "EdDSA" // Ed25519: a site verifies tokens with the public key alone
	HS256 = "HS256" // a secret that everybody who verifies must share
)

// minSecret is the least length of an HS256 secret in bytes, from RFC 7518 section 3.2.
const minSecret = 32

// Keys is an ordered set of keys: the first one signs, all of them verify. It does not change once made. A nil *Keys is
// the empty set. Printing one shows ids and algorithms, never a secret. Those of [Public] sign nothing.
type Keys struct {
	list   []*key
	byID   map[string]*key
	public []byte // the public JWK set
}

// key is one key with the one algorithm it may be used with.
type key struct {
	id     string
	method jwt.SigningMethod
	sign   any            // ed25519.PrivateKey, or []byte for HS256; nil: it only verifies
	verify any            // ed25519.PublicKey, or []byte for HS256
	header map[string]any // of the tokens it signs; read only
}

// Generate returns a set of one fresh key with a random id; alg is [EdDSA] or [HS256].
func Generate(alg string) (*Keys, error) {
	k, err := generateKey(alg)
	if err != nil {
		return nil, err
	}
	return newKeys([]*key{k})
}

// Rotate returns a set in which a fresh key signs and the keys of k still verify. Nodes that do not have the new set
// yet refuse what it signs; see the life of a key in the package's comment.
func (k *Keys) Rotate(alg string) (*Keys, error) {
	fresh, err := generateKey(alg)
	if err != nil {
		return nil, err
	}
	return newKeys(append([]*key{fresh}, k.all()...))
}

// Algorithm returns the algorithm of the key that signs, or "" for the empty set.
func (k *Keys) Algorithm() string {
	if first := k.first(); first != nil {
		return first.method.Alg()
	}
	return ""
}

// String lists ids and algorithms, the signing key first.
func (k *Keys) String() string {
	var names []string
	for _, key := range k.all() {
		names = append(names, key.id+" "+key.method.Alg())
	}
	return "keys(" + strings.Join(names, ", ") + ")"
}

// GoString keeps the secrets out of %#v.
func (k *Keys) GoString() string { return k.String() }

func (k *Keys) all() []*key {
	if k == nil {
		return nil
	}
	return k.list
}

func (k *Keys) first() *key {
	if all := k.all(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// find returns the key with this id, or nil.
func (k *Keys) find(id string) *key {
	if k == nil {
		return nil
	}
	return k.byID[id]
}

func newKeys(list []*key) (*Keys, error) {
	k := &Keys{list: list, byID: make(map[string]*key, len(list))}
	for i, key := range list {
		if k.byID[key.id] != nil {
			return nil, fmt.Errorf("token: key %d (%q): an earlier key has the same kid", i+1, key.id)
		}
		k.byID[key.id] = key
	}
	public, err := publicJWKS(list)
	if err != nil {
		return nil, err
	}
	k.public = public
	return k, nil
}

func generateKey(alg string) (*key, error) {
	random := make([]byte, 9+32)
	rand.Read(random) // never fails: it ends the program instead
	id, secret := base64.RawURLEncoding.EncodeToString(random[:9]), random[9:]
	switch alg {
	case EdDSA:
		return ed25519Key(id, ed25519.NewKeyFromSeed(secret)), nil
	case HS256:
		return hmacKey(id, secret), nil
	}
	return nil, fmt.Errorf("token: algorithm %q: must be %s or %s", alg, EdDSA, HS256)
}

func ed25519Key(id string, private ed25519.PrivateKey) *key {
	return newKey(id, jwt.SigningMethodEdDSA, private, private.Public().(ed25519.PublicKey))
}

func publicKey(id string, public ed25519.PublicKey) *key {
	return newKey(id, jwt.SigningMethodEdDSA, nil, public)
}

func hmacKey(id string, secret []byte) *key {
	return newKey(id, jwt.SigningMethodHS256, secret, secret)
}

func newKey(id string, method jwt.SigningMethod, sign, verify any) *key {
	header := map[string]any{"alg": method.Alg(), "kid": id, "typ": tokenType}
	return &key{id: id, method: method, sign: sign, verify: verify, header: header}
}
