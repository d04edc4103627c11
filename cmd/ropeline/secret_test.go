package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeline/cmd/ropeline/config"
)

func TestReadSecrets_TrimsAndRefusesShortOnesWithoutShowingThem(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := config.Booking{ServiceTokenFile: file("token", "  0123456789abcdef\n")}
	got, err := readSecrets(good)
	if err != nil || got["booking.service_token_file"] != "0123456789abcdef" || got["booking.customer_secret_file"] != "" {
		t.Errorf("got %v, want the token without white space", err)
	}
	for name, bad := range map[string]config.Booking{
		"booking.service_token_file":     {ServiceTokenFile: file("short", "hush-hush\n")},
		"booking.customer_secret_file":   {CustomerSecretFile: file("shorter", "hush-hush-hush-hush")},
		"booking.stripe.secret_key_file": {Stripe: config.Stripe{SecretKeyFile: file("empty", "\n")}},
		"booking.sandbox.secret_file":    {Sandbox: config.Sandbox{SecretFile: filepath.Join(dir, "missing")}},
	} {
		_, err := readSecrets(bad)
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), "hush-hush") {
			t.Errorf("%s: got %v, want an error that names the key and no secret", name, err)
		}
	}
}
