package token

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// noon is the time on the clock of most tests.
var noon = time.Date(2026, 12, 10, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// testKeys returns the keys in testdata: "test-ed" (the key of RFC 8037 appendix A) and "test-hs".
func testKeys(t testing.TB) *Keys {
	t.Helper()
	file, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// only returns the set of one of the keys.
func only(t testing.TB, keys *Keys, id string) *Keys {
	t.Helper()
	one, err := newKeys([]*key{keys.find(id)})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func admitted() Claims {
	return Claims{
		Room: "spring-tour", Visitor: "v-1", ID: "AAECAwQFBgcICQoL", Number: 17, Generation: 2_900_000,
		Issued: noon, Expires: noon.Add(10 * time.Minute), Started: noon.Add(-time.Minute),
	}
}

func mustSign(t testing.TB, a *Authority, c Claims) string {
	t.Helper()
	tok, err := a.Sign(c)
	if err != nil {
		t.Fatalf("Sign(%+v): %v", c, err)
	}
	return tok
}

func wantRefused(t *testing.T, a *Authority, room, tok string, want error) {
	t.Helper()
	c, err := a.Verify(room, tok)
	if !errors.Is(err, want) {
		t.Errorf("Verify = %v, want %v", err, want)
	}
	if c != (Claims{}) {
		t.Errorf("a refused token gave claims %+v", c)
	}
}

func TestAuthority_VerifiesWhatItSigned(t *testing.T) {
	for _, alg := range []string{EdDSA, HS256} {
		keys, err := Generate(alg)
		if err != nil {
			t.Fatal(err)
		}
		a := New(keys, Config{Now: atNoon})
		full := admitted()
		flagged := admitted()
		flagged.Provisional, flagged.Outage, flagged.Number = true, true, 0
		odd := admitted()
		odd.Visitor = "Nguyễn <\"&\\> \u2028 x@example.com"
		for _, c := range []Claims{full, flagged, odd} {
			tok := mustSign(t, a, c)
			for range 2 { // new, then seen
				got, err := a.Verify(c.Room, tok)
				if err != nil || got != c {
					t.Errorf("%s: Verify = %+v, %v; want %+v", alg, got, err, c)
				}
			}
		}
	}
}

func TestSign_FillsInTimesAndDropsFractions(t *testing.T) {
	a := New(testKeys(t), Config{Now: func() time.Time { return noon.Add(700 * time.Millisecond) }})
	c := admitted()
	c.Issued, c.Started = time.Time{}, time.Time{}
	c.Expires = noon.Add(90*time.Second + 900*time.Millisecond)
	got, err := a.Verify(c.Room, mustSign(t, a, c))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Issued.Equal(noon) || !got.Started.Equal(noon) || !got.Expires.Equal(noon.Add(90*time.Second)) {
		t.Errorf("issued %v, started %v, expires %v", got.Issued, got.Started, got.Expires)
	}
}

func TestSign_RefusesWhatVerifyWouldRefuse(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	for name, spoil := range map[string]func(*Claims){
		"no room":             func(c *Claims) { c.Room = "" },
		"no visitor":          func(c *Claims) { c.Visitor = "" },
		"no id":               func(c *Claims) { c.ID = "" },
		"visitor not UTF-8":   func(c *Claims) { c.Visitor = "\xff" },
		"no expiry":           func(c *Claims) { c.Expires = time.Time{} },
		"expiry at issue":     func(c *Claims) { c.Expires = c.Issued },
		"expiry before issue": func(c *Claims) { c.Expires = c.Issued.Add(-time.Hour) },
		"above the max life":  func(c *Claims) { c.Expires = c.Issued.Add(24*time.Hour + time.Second) },
		"negative number":     func(c *Claims) { c.Number = -1 },
		"huge generation":     func(c *Claims) { c.Generation = 1 << 53 },
		"before 1970":         func(c *Claims) { c.Started = time.Unix(-1, 0) },
		"above 4 KiB":         func(c *Claims) { c.Visitor = strings.Repeat("v", 4000) },
	} {
		c := admitted()
		spoil(&c)
		if tok, err := a.Sign(c); !errors.Is(err, ErrClaims) || tok != "" {
			t.Errorf("%s: Sign = %q, %v; want ErrClaims", name, tok, err)
		}
	}
}

func TestAuthority_WithoutKeysSignsAndAcceptsNothing(t *testing.T) {
	tok := mustSign(t, New(testKeys(t), Config{Now: atNoon}), admitted())
	for name, a := range map[string]*Authority{
		"nil":        New(nil, Config{Now: atNoon}),
		"zero value": New(&Keys{}, Config{Now: atNoon}),
	} {
		if _, err := a.Sign(admitted()); !errors.Is(err, ErrNoKeys) {
			t.Errorf("%s: Sign = %v, want ErrNoKeys", name, err)
		}
		wantRefused(t, a, "spring-tour", tok, ErrKey)
	}
}

// The times at which a token begins and stops to open its room, to the millisecond, the same for a token never seen
// and for one seen while it was valid.
func TestVerify_ChecksTheClockEachTime(t *testing.T) {
	now := noon
	signer := New(testKeys(t), Config{Now: atNoon})
	tok := mustSign(t, signer, admitted())
	exp := admitted().Expires
	for _, at := range []struct {
		when time.Time
		want error
	}{
		{noon.Add(-leeway - time.Millisecond), ErrNotYet},
		{noon.Add(-leeway), nil},
		{noon, nil},
		{exp, nil},
		{exp.Add(leeway - time.Millisecond), nil},
		{exp.Add(leeway), ErrExpired},
		{exp.Add(time.Hour), ErrExpired},
	} {
		for _, seen := range []bool{false, true} {
			a := New(testKeys(t), Config{Now: func() time.Time { return now }})
			if now = noon; seen {
				if _, err := a.Verify("spring-tour", tok); err != nil {
					t.Fatal(err)
				}
			}
			now = at.when
			if _, err := a.Verify("spring-tour", tok); !errors.Is(err, at.want) {
				t.Errorf("at %v, seen %v: %v, want %v", at.when, seen, err, at.want)
			}
		}
	}
}

// A token may say iat and nbf apart; remembered, it is still judged by the later of them.
func TestVerify_SeenTokenIsJudgedByTheLaterOfItsBeginnings(t *testing.T) {
	for _, later := range []string{"iat", "nbf"} {
		now := noon
		a := New(testKeys(t), Config{Now: func() time.Time { return now }})
		tok := craft(t, edHeader, payloadJSON(change{"iat", "1796904000"}, change{"nbf", "1796904000"}, change{later, "1796904100"}))
		now = noon.Add(100 * time.Second)
		if _, err := a.Verify("spring-tour", tok); err != nil {
			t.Fatal(err)
		}
		now = noon.Add(50 * time.Second)
		wantRefused(t, a, "spring-tour", tok, ErrNotYet)
	}
}

func TestVerify_RemembersPerRoom(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	tok := mustSign(t, a, admitted())
	if _, err := a.Verify("spring-tour", tok); err != nil {
		t.Fatal(err)
	}
	for _, room := range []string{"", "other", "SPRING-TOUR", "spring-tou", "spring-tour "} {
		wantRefused(t, a, room, tok, ErrRoom)
	}
	wantRefused(t, a, "", craft(t, edHeader, payloadJSON(change{"aud", `""`})), ErrRoom)
}

func TestVerify_MaxLifeIsCheckedForTokensOfOthers(t *testing.T) {
	generous := New(testKeys(t), Config{Now: atNoon})
	strict := New(testKeys(t), Config{Now: atNoon, MaxLife: 5 * time.Minute})
	wantRefused(t, strict, "spring-tour", mustSign(t, generous, admitted()), ErrLifetime)
	c := admitted()
	c.Expires = noon.Add(5 * time.Minute)
	if _, err := strict.Verify("spring-tour", mustSign(t, strict, c)); err != nil {
		t.Errorf("a life of exactly the longest: %v", err)
	}
}

func TestVerify_PanicIsARefusal(t *testing.T) {
	broken := false
	a := New(testKeys(t), Config{Now: func() time.Time {
		if broken {
			panic("no clock")
		}
		return noon
	}})
	tok := mustSign(t, a, admitted())
	broken = true
	wantRefused(t, a, "spring-tour", tok, ErrInternal)
	broken = false
	if _, err := a.Verify("spring-tour", tok); err != nil {
		t.Fatal(err)
	}
	broken = true
	wantRefused(t, a, "spring-tour", tok, ErrInternal) // and of a token seen before
}

func TestVerify_ToleratesClaimsOfANewerVersion(t *testing.T) {
	a := New(testKeys(t), Config{Now: atNoon})
	for _, extra := range []change{
		{"lane", `"members"`},
		{"x", `{"exp":[1,{"exp":null}],"y":"z"}`},
		{"deep", strings.Repeat("[", 1200) + strings.Repeat("]", 1200)},
	} {
		if c, err := a.Verify("spring-tour", craft(t, edHeader, payloadJSON(extra))); err != nil || c.Number != 17 {
			t.Errorf("with %s: Verify = %+v, %v", extra.name, c, err)
		}
	}
}

func TestVerify_SeenTokenAllocatesNothing(t *testing.T) {
	a := New(testKeys(t), Config{})
	c := admitted()
	c.Issued = time.Now()
	c.Started, c.Expires = c.Issued, c.Issued.Add(time.Hour)
	tok := mustSign(t, a, c)
	verify := func() {
		if _, err := a.Verify(c.Room, tok); err != nil {
			t.Fatal(err)
		}
	}
	verify()
	if n := testing.AllocsPerRun(100, verify); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAuthority_IsSafeForConcurrentUse(t *testing.T) {
	keys := testKeys(t)
	a := New(keys, Config{Now: atNoon, CacheSize: 8})
	var toks []string
	for i := range 20 {
		c := admitted()
		c.Number = int64(i)
		toks = append(toks, mustSign(t, a, c))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				n := (i*3 + g) % len(toks)
				c, err := a.Verify("spring-tour", toks[n])
				if err != nil || c.Number != int64(n) {
					t.Errorf("token %d: number %d, %v", n, c.Number, err)
				}
				if i%50 == 0 {
					a.SetKeys(keys)
				}
			}
		})
	}
	wg.Wait()
}

func TestReason_IsOneOfTheFixedWords(t *testing.T) {
	want := map[error]string{
		nil: "", ErrMissing: "missing", ErrMalformed: "malformed", ErrType: "wrong_type", ErrKey: "unknown_key",
		ErrSignature: "bad_signature", ErrIssuer: "wrong_issuer", ErrRoom: "wrong_room", ErrLifetime: "too_long",
		ErrNotYet: "not_yet", ErrExpired: "expired", ErrInternal: "internal",
		errors.New("something else"): "internal", refuse(ErrRoom, "x"): "wrong_room",
	}
	for err, word := range want {
		if got := Reason(err); got != word {
			t.Errorf("Reason(%v) = %q, want %q", err, got, word)
		}
	}
}
