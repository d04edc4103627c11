package token

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// without returns the set without one key, by way of the file, as an operator takes a key out.
func without(t *testing.T, k *Keys, id string) *Keys {
	t.Helper()
	written, err := k.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal(written, &file); err != nil {
		t.Fatal(err)
	}
	left := file.Keys[:0]
	for _, jwk := range file.Keys {
		if jwk["kid"] != id {
			left = append(left, jwk)
		}
	}
	file.Keys = left
	if written, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	less, err := ParseKeys(written)
	if err != nil {
		t.Fatal(err)
	}
	return less
}

func TestRotation_NewKeySignsAndOldTokensVerifyUntilTheirKeyIsRemoved(t *testing.T) {
	for _, algs := range [][2]string{{EdDSA, EdDSA}, {HS256, HS256}, {EdDSA, HS256}, {HS256, EdDSA}} {
		t.Run(strings.Join(algs[:], " to "), func(t *testing.T) {
			first, err := Generate(algs[0])
			if err != nil {
				t.Fatal(err)
			}
			both, err := first.Rotate(algs[1])
			if err != nil {
				t.Fatal(err)
			}
			a := New(first, Config{Now: atNoon})
			old := mustSign(t, a, admitted())
			wantAccepted(t, a, old)

			a.SetKeys(both)
			fresh := mustSign(t, a, admitted())
			if kid := keyID(t, fresh); kid != both.list[0].id || kid == first.list[0].id || a.Keys().Algorithm() != algs[1] {
				t.Errorf("signed with key %q of %v", kid, both)
			}
			wantAccepted(t, a, old)
			wantAccepted(t, a, fresh)
			wantRefused(t, New(first, Config{Now: atNoon}), "spring-tour", fresh, ErrKey) // a node the key has not reached

			a.SetKeys(without(t, both, first.list[0].id))
			wantRefused(t, a, "spring-tour", old, ErrKey) // although it was seen before
			wantAccepted(t, a, fresh)
		})
	}
}

// A key listed last verifies and does not sign: that is how it reaches every node before its first use.
func TestRotation_KeyListedLastVerifiesBeforeItSigns(t *testing.T) {
	both := testKeys(t)
	a := New(both, Config{Now: atNoon})
	if kid := keyID(t, mustSign(t, a, admitted())); kid != "test-ed" {
		t.Errorf("signed with %q, want the first key", kid)
	}
	wantAccepted(t, a, mustSign(t, New(only(t, both, "test-hs"), Config{Now: atNoon}), admitted()))
}

// An answer that was on its way when its key was removed is not remembered: here the key goes while golang-jwt asks for
// the time, with the signature already found good.
func TestRotation_AnswerUnderWayIsNotRemembered(t *testing.T) {
	keys := testKeys(t)
	removeKey := func() {}
	a := New(keys, Config{Now: func() time.Time { removeKey(); return noon }})
	going := mustSign(t, New(only(t, keys, "test-hs"), Config{Now: atNoon}), admitted())
	removeKey = func() { a.SetKeys(only(t, keys, "test-ed")) }
	wantAccepted(t, a, going) // it began before
	removeKey = func() {}
	wantRefused(t, a, "spring-tour", going, ErrKey)
}

// Under load no valid token is refused, and once SetKeys has returned none of a removed key is accepted.
func TestRotation_UnderLoad(t *testing.T) {
	keys := testKeys(t)
	signer := func(id string) *Authority { return New(only(t, keys, id), Config{Now: atNoon}) }
	staying, going := mustSign(t, signer("test-ed"), admitted()), mustSign(t, signer("test-hs"), admitted())
	with, less := keys, only(t, keys, "test-ed")
	a := New(with, Config{Now: atNoon})

	var stop atomic.Bool
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for !stop.Load() {
				a.Verify("spring-tour", going) // accepted or not, by when it comes
				if _, err := a.Verify("spring-tour", staying); err != nil {
					t.Errorf("a valid token was refused: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		a.SetKeys(with)
		wantAccepted(t, a, going)
		a.SetKeys(less)
		for range 20 {
			wantRefused(t, a, "spring-tour", going, ErrKey)
		}
	}
	stop.Store(true)
	load.Wait()
}

func wantAccepted(t *testing.T, a *Authority, tok string) {
	t.Helper()
	if _, err := a.Verify("spring-tour", tok); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func keyID(t *testing.T, tok string) string {
	t.Helper()
	head, err := header(tok)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := head.text("kid")
	return id
}
