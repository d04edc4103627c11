package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the seeds of the fuzz tests anew")

// ours returns every token that we gave out, with its room: whatever Verify accepts must be one of them.
func ours(t testing.TB) map[string]string {
	issued := map[string]string{
		craft(t, edHeader, payloadJSON()):                                "spring-tour",
		craft(t, hsHeader, payloadJSON()):                                "spring-tour",
		craft(t, edHeader, payloadJSON(change{"aud", `"autumn-tour"`})):  "autumn-tour",
		craft(t, hsHeader, payloadJSON(change{"prv", "true"})):           "spring-tour",
		craft(t, edHeader, payloadJSON(change{"lane", `{"a":[1,"b"]}`})): "spring-tour",
	}
	for _, id := range []string{"test-ed", "test-hs"} {
		issued[mustSign(t, New(only(t, testKeys(t), id), Config{Now: atNoon}), admitted())] = "spring-tour"
	}
	return issued
}

// Nobody has our keys, so nothing opens a room but what we signed for it, byte for byte; and a second look at a token
// gives the same answer as the first.
func FuzzVerify(f *testing.F) {
	issued := ours(f)
	a := New(testKeys(f), Config{Now: atNoon})
	f.Fuzz(func(t *testing.T, room, tok string) {
		c, err := a.Verify(room, tok)
		if err == nil && (issued[tok] != room || c.Room != room) {
			t.Fatalf("for room %q accepted %q", room, tok)
		}
		if err != nil && (c != (Claims{}) || errors.Is(err, ErrInternal)) {
			t.Fatalf("refused with %v and claims %+v", err, c)
		}
		again, err2 := a.Verify(room, tok)
		if again != c || Reason(err2) != Reason(err) {
			t.Fatalf("first %+v, %v; then %+v, %v", c, err, again, err2)
		}
	})
}

// Claims that we signed ourselves are accepted only if no reader can take them for something else than Verify does.
func FuzzClaims(f *testing.F) {
	key := testKeys(f).find("test-hs")
	a := New(testKeys(f), Config{Now: atNoon, CacheSize: -1})
	f.Fuzz(func(t *testing.T, claims string) {
		text := b64(hsHeader) + "." + b64(claims)
		c, err := a.Verify("spring-tour", text+"."+b64(string(sha256MAC(key.sign.([]byte), text))))
		if errors.Is(err, ErrInternal) || errors.Is(err, ErrSignature) {
			t.Fatalf("%q: %v", claims, err)
		}
		if err != nil {
			return
		}
		type lax payload // without its own UnmarshalJSON: in any case, the last of a name twice
		var asStruct lax
		if err := json.Unmarshal([]byte(claims), &asStruct); err != nil {
			t.Fatalf("accepted %q, which Go cannot read: %v", claims, err)
		}
		read := payload(asStruct)
		if read.claims() != c {
			t.Fatalf("%q: accepted as %+v, others read %+v", claims, c, read.claims())
		}
		if life := c.Expires.Sub(c.Issued); life <= 0 || life > a.maxLife || c.Room != "spring-tour" || c.Visitor == "" || c.ID == "" {
			t.Fatalf("accepted %q", claims)
		}
		var asMap map[string]any
		dec := json.NewDecoder(bytes.NewReader([]byte(claims)))
		dec.UseNumber()
		if err := dec.Decode(&asMap); err != nil || fmt.Sprint(asMap["exp"]) != fmt.Sprint(c.Expires.Unix()) {
			t.Fatalf("%q: exp as a map is %v, accepted as %d", claims, asMap["exp"], c.Expires.Unix())
		}
	})
}

// seeds returns the files in testdata/fuzz: the tokens we gave out and the forged ones, named after what they try.
func seeds(t testing.TB) map[string]string {
	const version = "go test fuzz v1\n"
	files := map[string]string{}
	dashes, sameAsExp := regexp.MustCompile(`[^a-z0-9]+`), regexp.MustCompile(`^(iat|nbf|num|gen|sst) is `)
	add := func(name, room, tok string) {
		name = strings.Trim(dashes.ReplaceAllString(strings.ToLower(name), "-"), "-")
		path := filepath.Join("testdata", "fuzz", "FuzzVerify", name)
		for files[path] != "" {
			path += "-2"
		}
		files[path] = version + fmt.Sprintf("string(%q)\nstring(%q)\n", room, tok)
	}
	issued := ours(t)
	for i, tok := range slices.Sorted(maps.Keys(issued)) {
		add(fmt.Sprint("ours ", i+1), issued[tok], tok)
	}
	for _, f := range forgeries(t) {
		// Long ones teach the fuzzer nothing, nor do the other integers, which are read by the same lines as exp.
		if len(f.token) > 2*maxSize || sameAsExp.MatchString(f.name) {
			continue
		}
		add(f.name, "spring-tour", f.token)
	}
	for name, claims := range map[string]string{
		"valid":   payloadJSON(),
		"extra":   payloadJSON(change{"x", `{"exp":[1,{"exp":null}]}`}),
		"flags":   payloadJSON(change{"prv", "true"}, change{"out", "false"}),
		"twice":   strings.Replace(payloadJSON(), "{", `{"exp":1796904700,`, 1),
		"folded":  strings.Replace(payloadJSON(), "{", `{"ſst":1,`, 1),
		"escaped": strings.Replace(payloadJSON(), "aud", `\u0061ud`, 1),
		"float":   payloadJSON(change{"exp", "17969046e2"}),
		"spaced":  strings.NewReplacer(",", " ,\n", ":", "\t: ").Replace(payloadJSON()),
		"null":    "null",
	} {
		files[filepath.Join("testdata", "fuzz", "FuzzClaims", name)] = version + fmt.Sprintf("string(%q)\n", claims)
	}
	return files
}

// The seeds in the repository are those of the table of forged tokens; `go test -run TestSeeds -update` writes them.
func TestSeeds_AreInTheRepository(t *testing.T) {
	for path, want := range seeds(t) {
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is missing or old (%v)", path, err)
		}
	}
}
