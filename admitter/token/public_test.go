package token

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

func mustPublic(t *testing.T, k *Keys) *Keys {
	t.Helper()
	public, err := Public(k.PublicJWKS())
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestPublic_KeysVerifyAndCannotSign(t *testing.T) {
	keys := testKeys(t) // one of each algorithm
	public := mustPublic(t, keys)
	if got, want := public.String(), "keys(test-ed EdDSA)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a := New(public, Config{Now: atNoon})
	tok := mustSign(t, New(keys, Config{Now: atNoon}), admitted())
	wantAccepted(t, a, tok)
	wantRefused(t, a, "another-room", tok, ErrRoom)
	wantRefused(t, a, "spring-tour", mustSign(t, New(only(t, keys, "test-hs"), Config{Now: atNoon}), admitted()), ErrKey)
	if tok, err := a.Sign(admitted()); !errors.Is(err, ErrNoKeys) || tok != "" {
		t.Errorf("Sign = %q, %v, want %v", tok, err, ErrNoKeys)
	}
	if _, err := public.JSON(); err == nil {
		t.Error("a private set was made of public keys")
	}
	if d := public.Derive("place"); len(d) != 0 {
		t.Errorf("%d secrets were derived from public keys", len(d))
	}
	if string(public.PublicJWKS()) != string(keys.PublicJWKS()) {
		t.Errorf("published again: %s, want %s", public.PublicJWKS(), keys.PublicJWKS())
	}
}

func TestPublic_SetsThatAreRefusedAndWhatIsPassedOver(t *testing.T) {
	const x = `"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`
	const good = `{"kty":"OKP","crv":"Ed25519","kid":"a",` + x + `}`
	secret := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	for name, c := range map[string]struct{ jwks, want string }{
		"no JSON":              {`x`, "not a JWK set"},
		"no keys member":       {`{}`, `no "keys"`},
		"an edge with HS256":   {string(must(Generate(HS256)).PublicJWKS()), "sign with EdDSA"},
		"only others":          {`{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"}]}`, "no Ed25519 key"},
		"a secret":             {`{"keys":[` + good + `,{"kty":"oct","kid":"b","k":"` + secret + `"}]}`, `public key 2 ("b"): an HS256 secret`},
		"a private key":        {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",` + x + `}]}`, "private key"},
		"another algorithm":    {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","alg":"HS256",` + x + `}]}`, "must be EdDSA"},
		"no kid":               {`{"keys":[{"kty":"OKP","crv":"Ed25519",` + x + `}]}`, "kid"},
		"for something else":   {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","key_ops":["encrypt"],` + x + `}]}`, "must contain verify"},
		"a short key":          {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAA"}]}`, "public key 1"},
		"a kid twice":          {`{"keys":[` + good + `,` + good + `]}`, "same kid"},
		"passed over":          {`{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"X25519","kid":"x"},` + good + `]}`, ""},
		"with every member":    {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","alg":"EdDSA","use":"sig","key_ops":["verify"],"note":1,` + x + `}]}`, ""},
		"an encrypting one by": {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"e","use":"enc",` + x + `},` + good + `]}`, ""},
	} {
		k, err := Public([]byte(c.jwks))
		switch {
		case c.want == "" && (err != nil || k.String() != "keys(a EdDSA)"):
			t.Errorf("%s: %v, %v", name, k, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		case err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "nWGxne")):
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

func must(k *Keys, err error) *Keys {
	if err != nil {
		panic(err)
	}
	return k
}

func TestRoomOf_SaysWhatATokenClaimsAndNothingElse(t *testing.T) {
	tok := mustSign(t, New(testKeys(t), Config{Now: atNoon}), admitted())
	parts := strings.Split(tok, ".")
	for name, c := range map[string]struct{ tok, want string }{
		"a token":            {tok, "spring-tour"},
		"another signature":  {parts[0] + "." + parts[1] + ".AAAA", "spring-tour"},
		"nothing":            {"", ""},
		"no parts":           {"abc", ""},
		"two parts":          {parts[0] + "." + parts[1], ""},
		"no base64url":       {"a.%%.c", ""},
		"padded":             {"a." + parts[1] + "=.c", ""},
		"an array":           {"a." + b64(`{"aud":["spring-tour"]}`) + ".c", ""},
		"twice":              {"a." + b64(`{"aud":"one","aud":"two"}`) + ".c", ""},
		"no object":          {"a." + b64(`"aud"`) + ".c", ""},
		"longer than any is": {"a." + b64(`{"aud":"x","y":"`+strings.Repeat("y", 4096)+`"}`) + ".c", ""},
	} {
		if got := RoomOf(c.tok); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
