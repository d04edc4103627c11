package token

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	edHeader = `{"alg":"EdDSA","kid":"test-ed","typ":"ropeline-access+jwt"}`
	hsHeader = `{"alg":"HS256","kid":"test-hs","typ":"ropeline-access+jwt"}`
)

// change is a claim to set to a JSON value, or to leave out where that is "".
type change struct{ name, value string }

// payloadJSON returns the claims of a token that is valid at noon, with the changes. A claim it does not have is added
// at the end.
func payloadJSON(changes ...change) string {
	claims := []change{
		{"iss", `"ropeline"`}, {"aud", `"spring-tour"`}, {"sub", `"v-1"`}, {"jti", `"AAECAwQFBgcICQoL"`},
		{"iat", "1796904000"}, {"nbf", "1796904000"}, {"exp", "1796904600"},
		{"num", "17"}, {"gen", "2900000"}, {"sst", "1796903940"},
	}
	for _, c := range changes {
		at := slices.IndexFunc(claims, func(have change) bool { return have.name == c.name })
		if at < 0 {
			claims = append(claims, c)
			continue
		}
		claims[at] = c
	}
	var members []string
	for _, c := range claims {
		if c.value != "" {
			members = append(members, fmt.Sprintf("%q:%s", c.name, c.value))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// craft signs any header and payload with the test key that the header's alg is for, as only we could.
func craft(t testing.TB, header, payload string) string {
	t.Helper()
	keys, text := testKeys(t), b64(header)+"."+b64(payload)
	if strings.Contains(header, `"HS256"`) {
		return text + "." + b64(string(sha256MAC(keys.find("test-hs").sign.([]byte), text)))
	}
	return text + "." + b64(string(ed25519.Sign(keys.find("test-ed").sign.(ed25519.PrivateKey), []byte(text))))
}

func sha256MAC(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// forged is a token that must not open the room.
type forged struct {
	name  string
	token string
	want  error
}

// forgeries lists them. All but those about signatures are signed with the real key: what refuses them is the check
// they are named for.
func forgeries(t testing.TB) []forged {
	good := craft(t, edHeader, payloadJSON())
	goodHS := craft(t, hsHeader, payloadJSON())
	text, sig := good[:strings.LastIndexByte(good, '.')], good[strings.LastIndexByte(good, '.')+1:]
	public := testKeys(t).find("test-ed").verify.(ed25519.PublicKey)
	stranger := ed25519.NewKeyFromSeed(make([]byte, 32))
	edKidHS := `{"alg":"HS256","kid":"test-ed","typ":"ropeline-access+jwt"}`
	unsigned := func(header string) string { return b64(header) + "." + b64(payloadJSON()) }
	claim := func(name, value string) string { return craft(t, edHeader, payloadJSON(change{name, value})) }
	head := func(header string) string { return craft(t, header, payloadJSON()) }

	list := []forged{
		// algorithm and key
		{"alg none", unsigned(`{"alg":"none","typ":"JWT"}`) + ".", ErrSignature},
		{"alg none with our header", unsigned(strings.Replace(edHeader, "EdDSA", "none", 1)) + ".", ErrSignature},
		{"alg nOnE", unsigned(strings.Replace(edHeader, "EdDSA", "nOnE", 1)) + ".", ErrSignature},
		{"alg none with a signature", unsigned(strings.Replace(edHeader, "EdDSA", "none", 1)) + "." + sig, ErrSignature},
		{"alg empty", unsigned(strings.Replace(edHeader, "EdDSA", "", 1)) + "." + sig, ErrMalformed},
		{"alg a number", head(strings.Replace(edHeader, `"EdDSA"`, "1", 1)), ErrMalformed},
		{"alg eddsa", head(strings.Replace(edHeader, "EdDSA", "eddsa", 1)), ErrSignature},
		{"alg RS256", unsigned(strings.Replace(edHeader, "EdDSA", "RS256", 1)) + "." + sig, ErrSignature},
		{"alg HS512", unsigned(strings.Replace(hsHeader, "HS256", "HS512", 1)) + "." + sig, ErrSignature},
		{"HS256 over the public key", unsigned(edKidHS) + "." + b64(string(sha256MAC(public, unsigned(edKidHS)))), ErrSignature},
		{"HS256 by our secret under the Ed25519 kid", head(edKidHS), ErrSignature},
		{"EdDSA under the HS256 kid", head(`{"alg":"EdDSA","kid":"test-hs","typ":"ropeline-access+jwt"}`), ErrSignature},
		{"wrong Ed25519 key", text + "." + b64(string(ed25519.Sign(stranger, []byte(text)))), ErrSignature},
		{"wrong HS256 key", unsigned(hsHeader) + "." + b64(string(sha256MAC(make([]byte, 32), unsigned(hsHeader)))), ErrSignature},
		{"HS256 with the empty key", unsigned(hsHeader) + "." + b64(string(sha256MAC(nil, unsigned(hsHeader)))), ErrSignature},
		{"zero signature", text + "." + b64(string(make([]byte, 64))), ErrSignature},
		{"zero HS256 signature", unsigned(hsHeader) + "." + b64(string(make([]byte, 32))), ErrSignature},
		{"empty signature", text + ".", ErrSignature},
		{"empty HS256 signature", unsigned(hsHeader) + ".", ErrSignature},
		{"half a signature", text + "." + sig[:43], ErrSignature},
		{"signature plus the group order", text + "." + addOrder(t, sig), ErrSignature},
		{"signature of another token", text + goodHS[strings.LastIndexByte(goodHS, '.'):], ErrSignature},
		{"claims of another token", b64(edHeader) + "." + b64(payloadJSON(change{"num", "1"})) + "." + sig, ErrSignature},

		// header
		{"kid unknown", head(strings.Replace(edHeader, "test-ed", "test-other", 1)), ErrKey},
		{"kid a path", head(strings.Replace(edHeader, "test-ed", "../../dev/null", 1)), ErrKey},
		{"kid SQL", head(strings.Replace(edHeader, "test-ed", "' OR 1=1 --", 1)), ErrKey},
		{"kid empty", head(strings.Replace(edHeader, "test-ed", "", 1)), ErrMalformed},
		{"kid missing", head(`{"alg":"EdDSA","typ":"ropeline-access+jwt"}`), ErrMalformed},
		{"kid an array", head(`{"alg":"EdDSA","kid":["test-ed"],"typ":"ropeline-access+jwt"}`), ErrMalformed},
		{"kid twice", head(`{"alg":"EdDSA","kid":"test-other","kid":"test-ed","typ":"ropeline-access+jwt"}`), ErrMalformed},
		{"KID beside kid", head(`{"alg":"EdDSA","kid":"test-ed","typ":"ropeline-access+jwt","KID":"test-hs"}`), ErrMalformed},
		{"ALG for alg", head(`{"ALG":"EdDSA","kid":"test-ed","typ":"ropeline-access+jwt"}`), ErrMalformed},
		{"typ JWT", head(`{"alg":"EdDSA","kid":"test-ed","typ":"JWT"}`), ErrType},
		{"typ of a place token", head(`{"alg":"EdDSA","kid":"test-ed","typ":"ropeline-place+jwt"}`), ErrType},
		{"typ in capitals", head(`{"alg":"EdDSA","kid":"test-ed","typ":"ROPELINE-ACCESS+JWT"}`), ErrType},
		{"typ missing", head(`{"alg":"EdDSA","kid":"test-ed"}`), ErrMalformed},
		{"typ null", head(`{"alg":"EdDSA","kid":"test-ed","typ":null}`), ErrMalformed},
		{"header null", head(`null`), ErrMalformed},
		{"header an array", head(`["EdDSA"]`), ErrMalformed},
		{"header twice", head(edHeader + edHeader), ErrMalformed},
		{"header cut", head(edHeader[:len(edHeader)-1]), ErrMalformed},
		{"header not UTF-8", head(strings.Replace(edHeader, "test-ed", "test-ed\xff", 1)), ErrMalformed},

		// claims
		{"claims null", craft(t, edHeader, `null`), ErrMalformed},
		{"claims an array", craft(t, edHeader, `[]`), ErrMalformed},
		{"claims empty", craft(t, edHeader, `{}`), ErrMalformed},
		{"claims twice", craft(t, edHeader, payloadJSON()+payloadJSON()), ErrMalformed},
		{"claims cut", craft(t, edHeader, strings.TrimSuffix(payloadJSON(), "}")), ErrMalformed},
		{"claims not UTF-8", claim("sub", "\"\xff\""), ErrMalformed},
		{"foreign room", claim("aud", `"autumn-tour"`), ErrRoom},
		{"room in capitals", claim("aud", `"SPRING-TOUR"`), ErrRoom},
		{"aud an array", claim("aud", `["spring-tour"]`), ErrMalformed},
		{"aud two rooms", claim("aud", `["autumn-tour","spring-tour"]`), ErrMalformed},
		{"aud missing", claim("aud", ""), ErrMalformed},
		{"aud empty", claim("aud", `""`), ErrMalformed},
		{"foreign issuer", claim("iss", `"queue-it"`), ErrIssuer},
		{"iss missing", claim("iss", ""), ErrMalformed},
		{"sub missing", claim("sub", ""), ErrMalformed},
		{"sub empty", claim("sub", `""`), ErrMalformed},
		{"sub a number", claim("sub", `1`), ErrMalformed},
		{"jti missing", claim("jti", ""), ErrMalformed},
		{"jti empty", claim("jti", `""`), ErrMalformed},
		{"expired", craft(t, edHeader, payloadJSON(change{"iat", "1796903000"}, change{"nbf", "1796903000"}, change{"exp", "1796903998"})), ErrExpired},
		{"nbf to come", claim("nbf", "1796904003"), ErrNotYet},
		{"iat to come", claim("iat", "1796904003"), ErrNotYet},
		{"exp before iat", claim("exp", "1796903999"), ErrMalformed},
		{"life above a day", claim("exp", "1796990401"), ErrLifetime},
		{"prv a string", claim("prv", `"true"`), ErrMalformed},
		{"out null", claim("out", `null`), ErrMalformed},
		{"PRV alone", claim("PRV", `true`), ErrMalformed},

		// names twice
		{"exp twice", craft(t, edHeader, strings.Replace(payloadJSON(), "{", `{"exp":1796904700,`, 1)), ErrMalformed},
		{"exp twice, the same", craft(t, edHeader, strings.Replace(payloadJSON(), "{", `{"exp":1796904600,`, 1)), ErrMalformed},
		{"EXP beside exp", claim("EXP", "1796904700"), ErrMalformed},
		{"exp by an escape beside exp", craft(t, edHeader, strings.Replace(payloadJSON(), "{", `{"\u0065xp":1796904700,`, 1)), ErrMalformed},
		{"long s beside sst", craft(t, edHeader, strings.Replace(payloadJSON(), "{", `{"ſst":1,`, 1)), ErrMalformed},
		{"aud twice", craft(t, edHeader, strings.Replace(payloadJSON(), "{", `{"aud":"autumn-tour",`, 1)), ErrMalformed},
		{"an extra claim twice", craft(t, edHeader, strings.Replace(payloadJSON(), "{", `{"x":1,"X":2,`, 1)), ErrMalformed},
		{"a name twice inside an extra claim", claim("x", `[{"y":1,"y":2}]`), ErrMalformed},

		// the bytes
		{"missing", "", ErrMissing},
		{"newline in the signature", text + "." + sig[:40] + "\n" + sig[40:], ErrMalformed},
		{"carriage return at the end", good + "\r", ErrMalformed},
		{"padding", good + "==", ErrMalformed},
		{"padding in the claims", strings.Replace(good, "."+sig, "=."+sig, 1), ErrMalformed},
		{"leading space", " " + good, ErrMalformed},
		{"trailing space", good + " ", ErrMalformed},
		{"space inside", text + ". " + sig, ErrMalformed},
		{"NUL at the end", good + "\x00", ErrMalformed},
		{"Bearer", "Bearer " + good, ErrMalformed},
		{"quoted", `"` + good + `"`, ErrMalformed},
		{"standard alphabet", strings.NewReplacer("-", "+", "_", "/").Replace(good), ErrMalformed},
		{"spare bits in the signature", good[:len(good)-1] + next(good[len(good)-1]), ErrMalformed},
		{"one part", b64(edHeader), ErrMalformed},
		{"two parts", text, ErrMalformed},
		{"four parts", good + "." + sig, ErrMalformed},
		{"four parts, last empty", good + ".", ErrMalformed},
		{"five parts", good + "." + sig + "." + sig, ErrMalformed},
		{"no header", "." + b64(payloadJSON()) + "." + sig, ErrMalformed},
		{"no claims", b64(edHeader) + ".." + sig, ErrMalformed},
		{"two dots", "..", ErrMalformed},
		{"10000 dots", strings.Repeat(".", 10000), ErrMalformed},
		{"4096 dots", strings.Repeat(".", 4096), ErrMalformed},
		{"100 KiB", claim("x", `"`+strings.Repeat("x", 100<<10)+`"`), ErrMalformed},
		{"a byte above 4 KiB", ofSize(t, maxSize+1), ErrMalformed},
	}
	for _, extra := range []string{
		`"crit":["x"]`, `"crit":[]`, `"crit":["b64"],"b64":false`, `"b64":false`, `"b64":true`, `"cty":"JWT"`, `"zip":"DEF"`,
		`"jwk":{"kty":"OKP","crv":"Ed25519","x":"` + b64(string(stranger.Public().(ed25519.PublicKey))) + `"}`,
		`"jku":"http://127.0.0.1/keys"`, `"x5u":"http://127.0.0.1/cert"`, `"x5c":["AA=="]`, `"":""`,
	} {
		name, _, _ := strings.Cut(extra, ":")
		list = append(list, forged{"header with " + extra[:min(len(extra), 24)] + " " + name,
			head(strings.TrimSuffix(edHeader, "}") + "," + extra + "}"), ErrMalformed})
	}
	for _, name := range []string{"exp", "iat", "nbf", "num", "gen", "sst"} {
		for _, value := range []string{
			"", "null", "true", `"1796904600"`, "1796904600.0", "1796904600.5", "17969046e2", "1e300", "1e-1", "-1", "-0",
			"9007199254740992", "9223372036854775808", "99999999999999999999999", "[1796904600]", "{}", "01796904600", "NaN",
		} {
			list = append(list, forged{name + " is " + value, claim(name, value), ErrMalformed})
		}
	}
	return append(list, forged{"exp zero", claim("exp", "0"), ErrMalformed})
}

// next returns the character after c in the base64url alphabet: the same bits but for the lowest.
func next(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, c)+1])
}

// addOrder returns the other number that solves the equation of an Ed25519 signature: its s plus the order of the group.
func addOrder(t testing.TB, sig string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(raw[32:])
	slices.Reverse(s)
	sum := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	return b64(string(raw[:32]) + string(sum))
}

// ofSize returns a token of exactly n bytes that is valid at noon but for its size.
func ofSize(t testing.TB, n int) string {
	t.Helper()
	for _, header := range []string{edHeader, hsHeader} { // base64 skips every fourth length, not the same one in both
		for pad := n/2 - 300; pad < n; pad++ {
			tok := craft(t, header, payloadJSON(change{"x", `"` + strings.Repeat("x", pad) + `"`}))
			if len(tok) == n {
				return tok
			} else if len(tok) > n {
				break
			}
		}
	}
	t.Fatalf("no token has %d bytes", n)
	return ""
}

func TestVerify_RefusesForgedTokens(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	for _, f := range forgeries(t) {
		t.Run(f.name, func(t *testing.T) {
			wantRefused(t, a, "spring-tour", f.token, f.want)
			wantRefused(t, a, "spring-tour", f.token, f.want) // a refusal is not forgotten
		})
	}
}

// What the forgeries are made of passes untouched, so each of them is refused for the one thing that is wrong with it.
func TestVerify_AcceptsTheTokensTheForgeriesAreMadeFrom(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	for name, tok := range map[string]string{
		"EdDSA":                     craft(t, edHeader, payloadJSON()),
		"HS256":                     craft(t, hsHeader, payloadJSON()),
		"4 KiB":                     ofSize(t, maxSize),
		"header in another order":   craft(t, `{"typ":"ropeline-access+jwt", "kid":"test-ed", "alg":"EdDSA"}`, payloadJSON()),
		"longest life":              craft(t, edHeader, payloadJSON(change{"exp", "1796990400"})),
		"nbf and iat within leeway": craft(t, edHeader, payloadJSON(change{"nbf", "1796904002"}, change{"iat", "1796904002"})),
		"expired within leeway":     craft(t, edHeader, payloadJSON(change{"iat", "1796903000"}, change{"exp", "1796903999"})),
		"flags false":               craft(t, edHeader, payloadJSON(change{"prv", "false"}, change{"out", "false"})),
	} {
		if _, err := a.Verify("spring-tour", tok); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerify_RefusesATokenCutAtEveryLength(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	for _, header := range []string{edHeader, hsHeader} {
		tok := craft(t, header, payloadJSON())
		for n := range len(tok) {
			_, err := a.Verify("spring-tour", tok[:n])
			if word := Reason(err); word != "missing" && word != "malformed" && word != "bad_signature" {
				t.Errorf("the first %d of %d bytes: %v", n, len(tok), err)
			}
		}
	}
}

// Nobody can turn a token into another one: every byte changed, inserted, doubled or left out is a refusal.
func TestVerify_RefusesATokenWithAnyByteChanged(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	tok := craft(t, edHeader, payloadJSON())
	if _, err := a.Verify("spring-tour", tok); err != nil {
		t.Fatal(err)
	}
	for i := range len(tok) {
		before, at, after := tok[:i], tok[i:i+1], tok[i+1:]
		for _, changed := range []string{
			before + "A" + after, before + "_" + after, before + "." + after, before + string(tok[i]^1) + after,
			before + after, before + at + at + after, before + "\n" + at + after, before + "=" + at + after,
		} {
			if _, err := a.Verify("spring-tour", changed); err == nil && changed != tok {
				t.Errorf("accepted with byte %d changed: %q", i, changed)
			}
		}
	}
}

// A token that is expired or of another room is refused for its signature first: the rest of it is not to be believed.
func TestVerify_TrustsNoClaimBeforeTheSignature(t *testing.T) {
	a := New(testKeys(t), Config{Now: func() time.Time { return noon.Add(48 * time.Hour) }})
	tok := craft(t, edHeader, payloadJSON(change{"aud", `"autumn-tour"`}))
	wantRefused(t, a, "spring-tour", tok[:len(tok)-86]+strings.Repeat("A", 86), ErrSignature)
	wantRefused(t, a, "spring-tour", tok, ErrRoom)
}
