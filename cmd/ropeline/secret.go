package main

import (
	"bytes"
	"fmt"
	"os"

	"ropeline/cmd/ropeline/config"
)

// secretFile is a file that a configuration names, with one secret in it.
type secretFile struct {
	key, path string
	least     int // bytes
}

// secretFiles are those of the section booking.
func secretFiles(b config.Booking) []secretFile {
	return []secretFile{
		{"booking.service_token_file", b.ServiceTokenFile, 16},
		{"booking.customer_secret_file", b.CustomerSecretFile, 32},
		{"booking.sandbox.secret_file", b.Sandbox.SecretFile, 1},
		{"booking.stripe.secret_key_file", b.Stripe.SecretKeyFile, 1},
		{"booking.stripe.webhook_secret_file", b.Stripe.WebhookSecretFile, 1},
		{"booking.kafka.sasl_password_file", b.Kafka.SASLPasswordFile, 1},
	}
}

// read is the secret without the white space around it, "" where no file is named. No error shows any of it.
func (f secretFile) read() (string, error) {
	if f.path == "" {
		return "", nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.key, err)
	}
	data = bytes.TrimSpace(data)
	if len(data) < f.least {
		return "", fmt.Errorf("%s: %s holds %d bytes, a secret has %d at least", f.key, f.path, len(data), f.least)
	}
	return string(data), nil
}

// secrets are what the files of the section booking hold, by the key that names them.
type secrets map[string]string

func readSecrets(b config.Booking) (secrets, error) {
	all := secrets{}
	for _, f := range secretFiles(b) {
		text, err := f.read()
		if err != nil {
			return nil, err
		}
		all[f.key] = text
	}
	return all, nil
}
