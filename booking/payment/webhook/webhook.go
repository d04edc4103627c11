// Package webhook signs and verifies callbacks as Standard Webhooks 1.0 has it: an HMAC-SHA256 over the message's id, its
// time and its body to the byte, in the headers webhook-id, webhook-timestamp and webhook-signature.
//
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	prefix              = "whsec_"
	leastBytes          = 24 // of a secret; both bounds are the specification's
	mostBytes           = 64
	maxID               = 200 // bytes of a message id
	randomSecretInBytes = 32
)

// Keys sign and verify. They are safe for concurrent use and never printed.
type Keys struct{ hooks []*standardwebhooks.Webhook }

// New takes one secret or, while one is being exchanged for another, several: "whsec_" and the base64 of 24 to 64 bytes.
// An error says which one is bad and never what it is.
func New(secrets ...string) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, errors.New("webhook: no secret")
	}
	k := &Keys{}
	for i, secret := range secrets {
		raw, isSecret := strings.CutPrefix(strings.TrimSpace(secret), prefix)
		key, err := base64.StdEncoding.DecodeString(raw)
		if !isSecret || err != nil || len(key) < leastBytes || len(key) > mostBytes {
			return nil, fmt.Errorf("webhook: secret %d is not %s and the base64 of %d to %d bytes", i+1, prefix, leastBytes, mostBytes)
		}
		hook, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("webhook: secret %d is not usable", i+1)
		}
		k.hooks = append(k.hooks, hook)
	}
	return k, nil
}

// NewSecret makes a secret that nobody knows.
func NewSecret() string {
	key := make([]byte, randomSecretInBytes)
	_, _ = rand.Read(key) // never fails
	return prefix + base64.StdEncoding.EncodeToString(key)
}

// Sign puts the three headers of a message into h: one signature for each secret, so that a receiver who knows any one of
// them can verify it. id is unique per message, and the same whenever it is sent again.
func (k *Keys) Sign(h http.Header, id string, at time.Time, body []byte) error {
	var signatures []string
	for _, hook := range k.hooks {
		signature, err := hook.Sign(id, at, body)
		if err != nil {
			return fmt.Errorf("webhook: sign %s: %w", id, err)
		}
		signatures = append(signatures, signature)
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}

// Verify returns the id of a message that was signed with one of the secrets, body to the byte, within five minutes of this
// machine's clock either way. Any error means that it must not be believed.
func (k *Keys) Verify(h http.Header, body []byte) (id string, err error) {
	id = h.Get(standardwebhooks.HeaderWebhookID)
	if len(id) > maxID {
		return "", errors.New("webhook: id too long")
	}
	for _, hook := range k.hooks {
		if err = hook.Verify(body, h); err == nil {
			return id, nil
		}
	}
	return "", fmt.Errorf("webhook: %w", err)
}
