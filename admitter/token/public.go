package token

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

// errSecrets explains a set without public keys.
var errSecrets = errors.New(`no Ed25519 key: HS256 secrets are never published; sign with EdDSA, or verify with the keys file`)

// Public reads a public JWK set, as [Keys.PublicJWKS] writes it: keys that verify and can't sign. Ed25519 keys (kty OKP)
// count; keys of other public-key types are passed over. A secret in the set refuses it, whether an HS256 one or the private
// half of a key: it must be in no public set. So does a set without any Ed25519 key, which is what an edge with HS256 keys
// publishes, and any other fault.
func Public(jwks []byte) (*Keys, error) {
	var set struct {
		Keys []jwkset.JWKMarshal `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		return nil, fmt.Errorf("token: not a JWK set: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New(`token: not a JWK set: it has no "keys"`)
	}
	var list []*key
	for i, jwk := range set.Keys {
		k, err := readPublic(jwk)
		if err != nil {
			return nil, fmt.Errorf("token: public key %d (%q): %w", i+1, jwk.KID, err)
		}
		if k != nil {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("token: public keys: %w", errSecrets)
	}
	return newKeys(list)
}

// readPublic returns nil for a key of a type that is not ours.
func readPublic(jwk jwkset.JWKMarshal) (*key, error) {
	switch {
	case jwk.KTY == jwkset.KtyOct:
		return nil, errors.New("an HS256 secret, which must not be published")
	case jwk.D != "":
		return nil, errors.New("d: a private key, which must not be published")
	case jwk.KTY != jwkset.KtyOKP || jwk.CRV != jwkset.CrvEd25519 || jwk.USE != "" && jwk.USE != jwkset.UseSig:
		return nil, nil
	case jwk.ALG != "" && jwk.ALG != jwkset.AlgEdDSA:
		return nil, fmt.Errorf("alg %q: must be EdDSA for kty OKP", jwk.ALG)
	case !validKeyID(jwk.KID):
		return nil, errKeyID
	case len(jwk.KEYOPS) > 0 && !slices.Contains(jwk.KEYOPS, jwkset.KeyOpsVerify):
		return nil, fmt.Errorf("key_ops %q: must contain verify", jwk.KEYOPS)
	}
	parsed, err := parseJWK(jwk)
	if err != nil {
		return nil, err
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok || len(public) != ed25519.PublicKeySize {
		return nil, errors.New("not an Ed25519 public key")
	}
	return publicKey(jwk.KID, public), nil
}
