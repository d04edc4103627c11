package queue

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
)

func sealer(t testing.TB, ids ...string) *Sealer {
	t.Helper()
	var keys []SealKey
	for _, id := range ids {
		keys = append(keys, SealKey{ID: id, Key: bytes.Repeat([]byte(id[:1]), 32)})
	}
	s, err := NewSealer(keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var issued = time.Date(2026, 12, 10, 3, 0, 0, 0, time.UTC)

func samplePlace() Place {
	return Place{ID: NewID(), Generation: 2_900_000, Number: 1_234_567, Issued: issued}
}

func TestPlaceToken_OpensToTheSamePlace(t *testing.T) {
	s := sealer(t, "a")
	for _, p := range []Place{samplePlace(), {ID: NewID(), Generation: 1, Number: 1, Lane: 3, Issued: issued, Digest: s.Digests("tour", "anna")[0]}} {
		token := s.Seal("tour", p)
		got, err := s.Open("tour", token, issued.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if !got.Issued.Equal(p.Issued) {
			t.Errorf("issued %v, want %v", got.Issued, p.Issued)
		}
		got.Issued = p.Issued
		if got != p {
			t.Errorf("got %+v, want %+v", got, p)
		}
		if len(token) > 140 {
			t.Errorf("%d bytes; a compact token has at most 140", len(token))
		}
	}
}

func TestPlaceToken_Refused(t *testing.T) {
	s := sealer(t, "a", "b")
	good := s.Seal("tour", samplePlace())
	tests := map[string]struct {
		room, token string
		at          time.Time
	}{
		"another room":          {"tour-2", good, issued},
		"a prefix of a room":    {"tou", good, issued},
		"too old":               {"tour", good, issued.Add(PlaceLife)},
		"empty":                 {"tour", "", issued},
		"no prefix":             {"tour", strings.TrimPrefix(good, placePrefix), issued},
		"padded":                {"tour", good + "=", issued},
		"newline inside":        {"tour", good[:20] + "\n" + good[20:], issued},
		"a key nobody has":      {"tour", sealer(t, "c").Seal("tour", samplePlace()), issued},
		"the key of another":    {"tour", sealerWith(t, "a", 'z').Seal("tour", samplePlace()), issued},
		"an access token":       {"tour", "eyJhbGciOiJFZERTQSJ9.e30.AAAA", issued},
		"number zero":           {"tour", s.Seal("tour", Place{ID: NewID(), Generation: 1, Issued: issued}), issued},
		"generation zero":       {"tour", s.Seal("tour", Place{ID: NewID(), Number: 1, Issued: issued}), issued},
		"a very long one":       {"tour", placePrefix + strings.Repeat("A", 1<<20), issued},
		"room moved into id":    {"our", s.Seal("tour", samplePlace()), issued},
		"spare bits at the end": {"tour", spare(good), issued},
	}
	for name, test := range tests {
		if _, err := s.Open(test.room, test.token, test.at); !errors.Is(err, ErrPlaceToken) {
			t.Errorf("%s: %v, want ErrPlaceToken", name, err)
		}
	}
	for n := range good {
		if _, err := s.Open("tour", good[:n], issued); err == nil {
			t.Errorf("cut to %d bytes it still opens", n)
		}
	}
	raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(good, placePrefix))
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			if _, err := s.Open("tour", placePrefix+base64.RawURLEncoding.EncodeToString(raw), issued); err == nil {
				t.Errorf("with bit %d of byte %d flipped it still opens", bit, i)
			}
			raw[i] ^= 1 << bit
		}
	}
}

func sealerWith(t *testing.T, id string, fill byte) *Sealer {
	t.Helper()
	s, err := NewSealer([]SealKey{{ID: id, Key: bytes.Repeat([]byte{fill}, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spare sets a bit that a lenient decoder ignores; a token without any becomes one that is refused for its length.
func spare(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	if len(strings.TrimPrefix(token, placePrefix))%4 == 0 {
		return token + "A"
	}
	return token[:len(token)-1] + alphabet[last|1:last|1+1]
}

func TestPlaceToken_OldKeysOpenNewOnesSeal(t *testing.T) {
	p := samplePlace()
	before := sealer(t, "a").Seal("tour", p)
	rotated := sealer(t, "b", "a")
	if _, err := rotated.Open("tour", before, issued); err != nil {
		t.Errorf("sealed before the rotation: %v", err)
	}
	if _, err := sealer(t, "a").Open("tour", rotated.Seal("tour", p), issued); err == nil {
		t.Error("after the rotation the old key still seals")
	}
	if _, err := sealer(t, "b").Open("tour", before, issued); err == nil {
		t.Error("with the old key removed its token still opens")
	}
}

func TestSealer_DigestsTellRoomsAndCustomersApart(t *testing.T) {
	s := sealer(t, "a")
	seen := map[string]bool{}
	for _, in := range [][2]string{{"tour", "anna"}, {"tour", "bob"}, {"gala", "anna"}, {"tou", "ranna"}} {
		d := s.Digests(in[0], in[1])[0]
		if seen[d] || len(d) != 22 {
			t.Errorf("digest %q of %v is not one of its own", d, in)
		}
		seen[d] = true
	}
}

func FuzzPlaceToken(f *testing.F) {
	s := sealer(f, "a")
	p := samplePlace()
	f.Add(s.Seal("tour", p))
	f.Add(s.Seal("gala", p))
	f.Add("rp1.")
	f.Add("rp1." + strings.Repeat("A", 90))
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		got, err := s.Open("tour", token, issued)
		if err != nil {
			return
		}
		if again := s.Seal("tour", got); again != token {
			t.Errorf("%q opens but was not sealed here: sealed again it is %q", token, again)
		}
	})
}
