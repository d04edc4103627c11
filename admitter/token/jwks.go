package token

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

// maxKeyID is the greatest length of a kid in bytes; it is part of every token.
const maxKeyID = 128

// ParseKeys reads a private JWK set (RFC 7517): Ed25519 keys (kty OKP, RFC 8037, with d) and HS256 secrets (kty oct, at
// least 32 bytes), in the order of the file, the first one to sign. Each needs a kid of its own; alg and use may be left
// out. Any fault refuses the whole set; errors name the key by its position and kid and show nothing secret.
func ParseKeys(jwks []byte) (*Keys, error) {
	var set struct {
		Keys []jwkset.JWKMarshal `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		return nil, fmt.Errorf("token: not a JWK set: %w", err)
	}
	if len(set.Keys) == 0 {
		return nil, errors.New(`token: not a JWK set: "keys" must list at least one key`)
	}
	list := make([]*key, len(set.Keys))
	for i, jwk := range set.Keys {
		k, err := readKey(jwk)
		if err != nil {
			return nil, fmt.Errorf("token: key %d (%q): %w", i+1, jwk.KID, err)
		}
		list[i] = k
	}
	return newKeys(list)
}

// JSON returns the private JWK set, which [ParseKeys] reads back: for the keys file and for Redis. It is all that is
// needed to forge tokens. Keys that only verify can't be written so: an error.
func (k *Keys) JSON() ([]byte, error) {
	set := jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{}}
	for _, key := range k.all() {
		if key.sign == nil {
			return nil, fmt.Errorf("token: write key %q: it only verifies", key.id)
		}
		jwk, err := writeKey(key.sign, key)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jwk)
	}
	return json.MarshalIndent(set, "", "  ")
}

// PublicJWKS returns the public JWK set, with which a site verifies tokens itself: the Ed25519 keys, in signing order.
// HS256 secrets are left out; where there is nothing else its "keys" is an empty array.
func (k *Keys) PublicJWKS() []byte {
	if k == nil {
		return []byte(`{"keys":[]}`)
	}
	return bytes.Clone(k.public)
}

func publicJWKS(list []*key) ([]byte, error) {
	set := jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{}}
	for _, key := range list {
		if _, ok := key.verify.(ed25519.PublicKey); !ok {
			continue
		}
		jwk, err := writeKey(key.verify, key)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jwk)
	}
	return json.Marshal(set)
}

// writeKey returns the JWK of material, which is the signing or the verifying half of k.
func writeKey(material any, k *key) (jwkset.JWKMarshal, error) {
	jwk, err := jwkset.NewJWKFromKey(material, jwkset.JWKOptions{
		Marshal:  jwkset.JWKMarshalOptions{Private: true}, // without it no secret is written at all
		Metadata: jwkset.JWKMetadataOptions{ALG: jwkset.ALG(k.method.Alg()), KID: k.id, USE: jwkset.UseSig},
	})
	if err != nil {
		return jwkset.JWKMarshal{}, fmt.Errorf("token: write key %q: %w", k.id, err)
	}
	return jwk.Marshal(), nil
}

func readKey(jwk jwkset.JWKMarshal) (*key, error) {
	if err := checkUse(jwk); err != nil {
		return nil, err
	}
	switch jwk.KTY {
	case jwkset.KtyOKP:
		return readEd25519(jwk)
	case jwkset.KtyOct:
		return readHMAC(jwk)
	}
	return nil, fmt.Errorf("kty %q: must be OKP (Ed25519) or oct (HS256)", jwk.KTY)
}

var errKeyID = fmt.Errorf("kid: must be 1 to %d printable ASCII characters without spaces, quotes and backslashes", maxKeyID)

// checkUse refuses keys that cannot be told apart or were made for something else.
func checkUse(jwk jwkset.JWKMarshal) error {
	if !validKeyID(jwk.KID) {
		return errKeyID
	}
	if jwk.USE != "" && jwk.USE != jwkset.UseSig {
		return fmt.Errorf("use %q: must be sig", jwk.USE)
	}
	if len(jwk.KEYOPS) > 0 && !slices.Contains(jwk.KEYOPS, jwkset.KeyOpsSign) {
		return fmt.Errorf("key_ops %q: must contain sign", jwk.KEYOPS)
	}
	return nil
}

func validKeyID(id string) bool {
	for _, b := range []byte(id) {
		if b <= ' ' || b > '~' || b == '"' || b == '\'' || b == '\\' {
			return false
		}
	}
	return id != "" && len(id) <= maxKeyID
}

func readEd25519(jwk jwkset.JWKMarshal) (*key, error) {
	if jwk.ALG != "" && jwk.ALG != jwkset.AlgEdDSA {
		return nil, fmt.Errorf("alg %q: must be EdDSA for kty OKP", jwk.ALG)
	}
	if jwk.CRV != jwkset.CrvEd25519 {
		return nil, fmt.Errorf("crv %q: must be Ed25519", jwk.CRV)
	}
	if jwk.D == "" {
		return nil, errors.New("d: missing; a public key cannot sign")
	}
	parsed, err := parseJWK(jwk)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("not an Ed25519 private key")
	}
	// jwkset takes x for the public half without deriving it from d. Signing with halves of two keys gives bad
	// signatures, and two of those over one message give d away.
	if !private.Equal(ed25519.NewKeyFromSeed(private.Seed())) {
		return nil, errors.New("x: is not the public key of d")
	}
	return ed25519Key(jwk.KID, private), nil
}

func readHMAC(jwk jwkset.JWKMarshal) (*key, error) {
	if jwk.ALG != "" && jwk.ALG != jwkset.AlgHS256 {
		return nil, fmt.Errorf("alg %q: must be HS256 for kty oct", jwk.ALG)
	}
	parsed, err := parseJWK(jwk)
	if err != nil {
		return nil, err
	}
	secret, ok := parsed.([]byte)
	if !ok || len(secret) < minSecret {
		return nil, fmt.Errorf("k: must be at least %d bytes, this one has %d", minSecret, len(secret))
	}
	return hmacKey(jwk.KID, secret), nil
}

// parseJWK decodes the key material alone, so that certificates or addresses beside it mean nothing to us.
func parseJWK(jwk jwkset.JWKMarshal) (any, error) {
	parsed, err := jwkset.NewJWKFromMarshal(
		jwkset.JWKMarshal{KTY: jwk.KTY, CRV: jwk.CRV, X: jwk.X, D: jwk.D, K: jwk.K},
		jwkset.JWKMarshalOptions{Private: true}, jwkset.JWKValidateOptions{SkipMetadata: true, SkipAll: true})
	if err != nil {
		return nil, err
	}
	return parsed.Key(), nil
}
