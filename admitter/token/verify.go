package token

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// seenKey is what a verified token is remembered by: all of its bytes, and the room it was shown to.
type seenKey struct{ room, token string }

// seenToken is a token whose signature, room and form are known to be good; only its times are left to check.
type seenToken struct {
	claims    Claims
	notBefore time.Time // the later of nbf and iat
}

// Verify returns the claims of tok if it is an access token for the room with this id, and otherwise one of the errors
// of this package, of which [Reason] makes a word. It needs no store. A token seen before costs a look-up by the whole
// token and the room, and the checks of time; nothing is remembered about a refused one.
//
// It checks, in this order, that
//
//   - there is a token, of at most 4 KiB;
//   - it is three parts with two dots between, of nothing but the base64url alphabet: no padding, space or newline;
//   - each part decodes strictly, without spare bits, so that no second spelling of a token passes;
//   - the header is one JSON object with alg, typ and kid, all strings, and nothing else: no crit, b64, jwk, jku, x5u;
//   - no name stands twice in the header or in the claims, in whatever case;
//   - typ is that of an access token, so that a place token never opens a gate;
//   - kid names one of our keys, and alg is the one algorithm of that key;
//   - iss, aud, sub and jti are non-empty strings (so aud is no array), iat, nbf, exp, num, gen and sst are integers
//     from 0 to 2^53-1, prv and out are booleans if there, and exp comes after iat; other claims are passed over;
//   - the signature is that key's, over these bytes;
//   - iss is "ropeline";
//   - aud is the room, byte for byte;
//   - nbf and iat have come, and exp has not, each with 2 s of leeway;
//   - exp - iat is at most MaxLife.
//
// Any other failure, also a panic, is a refusal.
func (a *Authority) Verify(room, tok string) (c Claims, err error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = Claims{}, fmt.Errorf("%w: panic: %v", ErrInternal, r)
		}
	}()
	if tok == "" {
		return Claims{}, ErrMissing
	}
	if len(tok) > maxSize {
		return Claims{}, refuse(ErrMalformed, "longer than 4 KiB")
	}
	t := a.tenure.Load()
	if seen, ok := t.seen.Get(seenKey{room, tok}); ok {
		return a.again(t, room, tok, seen)
	}
	seen, err := t.verify(room, tok, a.now, a.maxLife)
	if err != nil {
		return Claims{}, err
	}
	// The caller's strings may be parts of larger ones, such as a whole Cookie header.
	t.seen.Put(seenKey{seen.claims.Room, strings.Clone(tok)}, seen)
	return seen.claims, nil
}

// again judges a token that was verified before by the clock alone, as golang-jwt judges a new one.
func (a *Authority) again(t *tenure, room, tok string, seen *seenToken) (Claims, error) {
	now := a.now()
	if now.Before(seen.notBefore.Add(-leeway)) {
		return Claims{}, ErrNotYet
	}
	if !now.Before(seen.claims.Expires.Add(leeway)) {
		t.seen.Delete(seenKey{room, tok})
		return Claims{}, ErrExpired
	}
	return seen.claims, nil
}

func (t *tenure) verify(room, tok string, now func() time.Time, maxLife time.Duration) (*seenToken, error) {
	key, err := t.signer(tok)
	if err != nil {
		return nil, err
	}
	if room == "" { // to golang-jwt an empty audience could mean any
		return nil, ErrRoom
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{key.method.Alg()}),
		jwt.WithIssuer(issuer),
		jwt.WithAudience(room),
		jwt.WithExpirationRequired(),
		jwt.WithNotBeforeRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(now),
	)
	var p payload
	if _, err := parser.ParseWithClaims(tok, &p, func(*jwt.Token) (any, error) { return key.verify, nil }); err != nil {
		return nil, translate(err)
	}
	if p.tooLong(maxLife) {
		return nil, ErrLifetime
	}
	return &seenToken{claims: p.claims(), notBefore: time.Unix(max(p.NotBefore, p.Issued), 0)}, nil
}

// signer returns the key that tok says it is signed with, after all the checks of form and header.
func (t *tenure) signer(tok string) (*key, error) {
	head, err := header(tok)
	if err != nil {
		return nil, err
	}
	alg, ok := head.text("alg")
	if !ok {
		return nil, refuse(ErrMalformed, "alg must be a non-empty string")
	}
	if alg != EdDSA && alg != HS256 {
		return nil, refuse(ErrSignature, "alg is not one of ours")
	}
	typ, hasType := head.text("typ")
	kid, hasKey := head.text("kid")
	if len(head.values) != 3 || !hasType || !hasKey {
		return nil, refuse(ErrMalformed, "the header must be alg, typ and kid and nothing else")
	}
	if typ != tokenType {
		return nil, ErrType
	}
	key := t.keys.find(kid)
	if key == nil {
		return nil, ErrKey
	}
	if alg != key.method.Alg() {
		return nil, refuse(ErrSignature, "alg is not that of the key")
	}
	return key, nil
}

// header checks that tok is three parts of base64url and returns the first one as an object.
func header(tok string) (object, error) {
	first, rest, ok := strings.Cut(tok, ".")
	second, third, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 || first == "" || second == "" {
		return object{}, refuse(ErrMalformed, "not three parts")
	}
	for _, part := range []string{first, second, third} {
		if !base64url(part) {
			return object{}, refuse(ErrMalformed, "a byte outside base64url")
		}
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return object{}, refuse(ErrMalformed, "the header is not strict base64url")
	}
	head, err := readObject(data)
	if err != nil {
		return object{}, refuse(ErrMalformed, "the header is "+err.Error())
	}
	return head, nil
}

// base64url reports whether s has bytes of the alphabet only. Go's decoder, strict or not, skips newlines.
func base64url(s string) bool {
	for i := range len(s) {
		b := s[i]
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_') {
			return false
		}
	}
	return true
}

// translate turns an error of golang-jwt into one of ours. Several can hold at once; the first one in this order wins.
func translate(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	for _, t := range []struct{ theirs, ours error }{
		{jwt.ErrTokenMalformed, ErrMalformed},
		{jwt.ErrTokenSignatureInvalid, ErrSignature},
		{jwt.ErrTokenRequiredClaimMissing, ErrMalformed},
		{jwt.ErrTokenInvalidIssuer, ErrIssuer},
		{jwt.ErrTokenInvalidAudience, ErrRoom},
		{jwt.ErrTokenNotValidYet, ErrNotYet},
		{jwt.ErrTokenUsedBeforeIssued, ErrNotYet},
		{jwt.ErrTokenExpired, ErrExpired},
	} {
		if errors.Is(err, t.theirs) {
			return t.ours
		}
	}
	return ErrInternal
}
