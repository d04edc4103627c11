package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ropeline/admitter/token"
)

// customerSecrets are what customer keys are signed with where no file gives a secret: one from each signing key, that of
// the key that signs first.
func customerSecrets(keys *token.Keys) [][]byte {
	var out [][]byte
	for _, d := range keys.Derive("customer") {
		out = append(out, d.Key[:])
	}
	return out
}

// secretName is the file with the secret of customer keys in the data folder of a Postgres of our own: orders that outlive a
// restart are found again after it, though the signing keys may be gone with a Redis of our own.
const secretName = "ropeline-customer-secret"

// customerSecret reads the secret of the folder, and makes it once.
func customerSecret(folder string) ([]byte, error) {
	path := filepath.Join(folder, secretName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var random [32]byte
		_, _ = rand.Read(random[:]) // it never fails: see crypto/rand
		text = []byte(hex.EncodeToString(random[:]))
		err = replaceFile(path, text)
	}
	if err != nil {
		return nil, fmt.Errorf("secret of customer keys: %w", err)
	}
	return text, nil
}

// signers are the secrets of customer keys, the one that signs first; those behind it are still believed.
func (s *shop) signers(own string, derived [][]byte) ([][]byte, error) {
	switch {
	case own != "":
		return append([][]byte{[]byte(own)}, derived...), nil
	case s.db.auto != "":
		kept, err := customerSecret(s.db.auto)
		return append([][]byte{kept}, derived...), err
	case len(derived) > 0:
		return derived, nil
	}
	return [][]byte{nil}, nil // one that ends with the process
}
