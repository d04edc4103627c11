package token

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The derived secrets are in every place token and cannot change. want is RFC 5869 written out with HMAC.
func TestDerive_IsHKDFOfEachKeyInOrder(t *testing.T) {
	k := testKeys(t)
	fixed := map[string]string{
		"test-ed": "dbe7a44ab2f278ca128bdcbc493f915f855f8d4f2f8c1dcd3b28505778bd65ca",
		"test-hs": "3534d4b1851e86260ae63dd3ea3fc4be1b045040b9a634ef19fe67739db28ad2",
	}
	derived := k.Derive("place")
	if len(derived) != 2 {
		t.Fatalf("%d secrets for 2 keys", len(derived))
	}
	for i, d := range derived {
		if d.KeyID != k.list[i].id {
			t.Errorf("secret %d is of key %q, want %q", i, d.KeyID, k.list[i].id)
		}
		extracted := sha256MAC(make([]byte, 32), string(k.list[i].secret()))
		if want := sha256MAC(extracted, "ropeline/v1/place\x01"); !bytes.Equal(d.Key[:], want) {
			t.Errorf("%s: %x, want %x", d.KeyID, d.Key, want)
		}
		if got := hex.EncodeToString(d.Key[:]); got != fixed[d.KeyID] {
			t.Errorf("%s: %s, want %s as in every version before", d.KeyID, got, fixed[d.KeyID])
		}
	}
}

func TestDerive_DiffersByPurposeAndKeyAndIsNotTheKey(t *testing.T) {
	k := testKeys(t)
	seen := map[[32]byte]string{}
	for _, key := range k.list {
		seen[[32]byte(key.secret())] = "the secret of " + key.id
	}
	for _, purpose := range []string{"", "place", "draw", "Place", "place "} {
		for _, d := range k.Derive(purpose) {
			if before, ok := seen[d.Key]; ok {
				t.Errorf("%s for %q is the same as %s", d.KeyID, purpose, before)
			}
			seen[d.Key] = d.KeyID + " for " + purpose
		}
	}
}

func TestDerive_StaysWithItsKeyThroughARotation(t *testing.T) {
	k := testKeys(t)
	rotated, err := k.Rotate(EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	before, after := k.Derive("place"), rotated.Derive("place")
	if len(after) != 3 || after[1] != before[0] || after[2] != before[1] {
		t.Errorf("before %v, after %v", before, after)
	}
	if (*Keys)(nil).Derive("place") == nil || len((&Keys{}).Derive("place")) != 0 {
		t.Error("no keys must derive an empty list")
	}
}
