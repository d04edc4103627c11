package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestGenerate_MakesOneFreshKeyOfTheAlgorithm(t *testing.T) {
	seen := map[string]bool{}
	for _, alg := range []string{EdDSA, HS256, EdDSA, HS256} {
		k, err := Generate(alg)
		if err != nil {
			t.Fatal(err)
		}
		if k.Algorithm() != alg || len(k.list) != 1 || !validKeyID(k.list[0].id) {
			t.Errorf("Generate(%s) = %v", alg, k)
		}
		for _, fresh := range []string{k.list[0].id, string(k.list[0].secret())} {
			if seen[fresh] {
				t.Errorf("%s: an id or secret came twice", alg)
			}
			seen[fresh] = true
		}
	}
	for _, alg := range []string{"", "none", "RS256", "eddsa"} {
		if _, err := Generate(alg); err == nil {
			t.Errorf("Generate(%q) made a key", alg)
		}
	}
}

func TestKeys_SurviveBeingWrittenAndRead(t *testing.T) {
	k := testKeys(t)
	for _, alg := range []string{HS256, EdDSA} {
		var err error
		if k, err = k.Rotate(alg); err != nil {
			t.Fatal(err)
		}
	}
	written, err := k.JSON()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseKeys(written)
	if err != nil {
		t.Fatal(err)
	}
	if read.String() != k.String() || !reflect.DeepEqual(read, k) {
		t.Errorf("read %v, wrote %v", read, k)
	}
	a, b := New(k, Config{Now: atNoon}), New(read, Config{Now: atNoon})
	if _, err := b.Verify("spring-tour", mustSign(t, a, admitted())); err != nil {
		t.Errorf("token of the written key: %v", err)
	}
}

func TestParseKeys_ReadsKeysOfOtherTools(t *testing.T) {
	// The Ed25519 key of RFC 8037 A.1 as it stands there, with a kid; and a secret of 64 bytes with every optional member.
	k, err := ParseKeys([]byte(`{"keys":[
		{"kty":"OKP","crv":"Ed25519","kid":"a","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
		{"kty":"oct","kid":"https://example.com/keys#2","use":"sig","alg":"HS256","key_ops":["sign","verify"],"note":"x",
		 "k":"` + b64(strings.Repeat("k", 64)) + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.String(), "keys(a EdDSA, https://example.com/keys#2 HS256)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseKeys_NamesWhatIsWrong(t *testing.T) {
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	const d = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
	secret := b64(strings.Repeat("\xa5", 32))
	ed := `{"kty":"OKP","crv":"Ed25519","kid":"a","x":"` + x + `","d":"` + d + `"}`
	oct := func(more string) string { return `{"kty":"oct","kid":"b","k":"` + secret + `"` + more + `}` }
	for _, bad := range []struct{ second, want string }{
		{`{"kty":"OKP","crv":"Ed25519","kid":"b","x":"` + x + `"}`, `key 2 ("b"): d: missing`},
		{`{"kty":"OKP","crv":"Ed25519","kid":"b","x":"` + b64(strings.Repeat("x", 32)) + `","d":"` + d + `"}`, `key 2 ("b"): x: is not the public key of d`},
		{`{"kty":"OKP","crv":"Ed25519","kid":"b","x":"` + x + `","d":"` + d[:40] + `"}`, `key 2 ("b")`},
		{`{"kty":"OKP","crv":"Ed25519","kid":"b","x":"` + x + `","d":"!` + d[1:] + `"}`, `key 2 ("b")`},
		{`{"kty":"OKP","crv":"X25519","kid":"b","x":"` + x + `","d":"` + d + `"}`, `key 2 ("b"): crv "X25519": must be Ed25519`},
		{`{"kty":"OKP","crv":"Ed25519","kid":"b","alg":"ES256","x":"` + x + `","d":"` + d + `"}`, `key 2 ("b"): alg "ES256": must be EdDSA`},
		{`{"kty":"RSA","kid":"b","n":"AQAB","e":"AQAB"}`, `key 2 ("b"): kty "RSA": must be OKP (Ed25519) or oct (HS256)`},
		{`{"kid":"b"}`, `key 2 ("b"): kty ""`},
		{`{"kty":"oct","kid":"b"}`, `key 2 ("b")`},
		{`{"kty":"oct","kid":"b","k":"` + b64(strings.Repeat("\xa5", 31)) + `"}`, `key 2 ("b"): k: must be at least 32 bytes, this one has 31`},
		{oct(`,"alg":"HS512"`), `key 2 ("b"): alg "HS512": must be HS256`},
		{oct(`,"use":"enc"`), `key 2 ("b"): use "enc": must be sig`},
		{oct(`,"key_ops":["verify"]`), `key 2 ("b"): key_ops ["verify"]: must contain sign`},
		{strings.Replace(oct(""), `"b"`, `"a"`, 1), `key 2 ("a"): an earlier key has the same kid`},
		{strings.Replace(oct(""), `"b"`, `""`, 1), `key 2 (""): kid: must be 1 to 128`},
		{strings.Replace(oct(""), `"b"`, `"a b"`, 1), `key 2 ("a b"): kid`},
		{strings.Replace(oct(""), `"b"`, `"`+strings.Repeat("b", 129)+`"`, 1), `kid: must be 1 to 128`},
	} {
		_, err := ParseKeys([]byte(`{"keys":[` + ed + `,` + bad.second + `]}`))
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s:\n got %v\nwant %s", bad.second, err, bad.want)
			continue
		}
		for _, private := range []string{d[1:], secret, "\xa5\xa5"} {
			if strings.Contains(err.Error(), private) {
				t.Errorf("the error shows a secret: %v", err)
			}
		}
	}
	for _, file := range []string{"", "{", "[]", "null", "{}", `{"keys":null}`, `{"keys":[]}`, `{"keys":{}}`, ed, `{"keys":[` + ed + `]} x`, `{"keys":[` + ed} {
		if _, err := ParseKeys([]byte(file)); err == nil || !strings.Contains(err.Error(), "not a JWK set") {
			t.Errorf("ParseKeys(%q) = %v", file, err)
		}
	}
}

func TestKeys_CannotBeChangedThroughWhatTheyReturn(t *testing.T) {
	k := testKeys(t)
	want := string(k.PublicJWKS())
	clear(k.PublicJWKS())
	if got := string(k.PublicJWKS()); got != want {
		t.Errorf("after writing to the public set: %q", got)
	}
	rotated, err := k.Rotate(HS256)
	if err != nil {
		t.Fatal(err)
	}
	if k.Algorithm() != EdDSA || len(k.list) != 2 || len(rotated.list) != 3 {
		t.Errorf("Rotate changed its receiver: %v", k)
	}
}

// A site that has only the public set verifies a token with nothing but Ed25519, and the set shows nothing secret.
func TestPublicJWKS_IsEnoughToVerifyAndNoMore(t *testing.T) {
	k, err := testKeys(t).Rotate(EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(k.PublicJWKS(), &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 2 || set.Keys[1]["kid"] != "test-ed" {
		t.Fatalf("want the two Ed25519 keys, the signing one first: %s", k.PublicJWKS())
	}
	for _, jwk := range set.Keys {
		x := jwk["x"].(string)
		want := map[string]any{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": jwk["kid"], "x": x}
		if !reflect.DeepEqual(jwk, want) {
			t.Errorf("key %v has members %v, want %v", jwk["kid"], jwk, want)
		}
		public, _ := base64.RawURLEncoding.DecodeString(x)
		tok := mustSign(t, New(only(t, k, jwk["kid"].(string)), Config{Now: atNoon}), admitted())
		dot := strings.LastIndexByte(tok, '.')
		sig, _ := base64.RawURLEncoding.DecodeString(tok[dot+1:])
		if !ed25519.Verify(public, []byte(tok[:dot]), sig) {
			t.Errorf("key %v does not verify its token", jwk["kid"])
		}
	}
	for name, k := range map[string]*Keys{"HS256": only(t, k, "test-hs"), "nil": nil} {
		if got := string(k.PublicJWKS()); got != `{"keys":[]}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestKeys_ShowNoSecretWhenPrinted(t *testing.T) {
	file, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	k := testKeys(t)
	a := New(k, Config{})
	var secrets []string
	for _, key := range k.list {
		secrets = append(secrets, b64(string(key.secret())), string(key.secret()), fmt.Sprint(key.secret()), fmt.Sprintf("%#v", key.secret())[7:])
	}
	if !strings.Contains(string(file), secrets[0]) {
		t.Fatal("the test looks for the wrong secrets")
	}
	derived := k.Derive("test")
	secrets = append(secrets, fmt.Sprint(derived[0].Key), string(derived[0].Key[:]))
	for _, verb := range []string{"%v", "%+v", "%s", "%#v"} {
		for _, v := range []any{k, a.Keys(), derived, derived[0]} {
			printed := fmt.Sprintf(verb, v)
			if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(printed, s) }) {
				t.Errorf("%s of %T shows a secret", verb, v)
			}
		}
	}
}
