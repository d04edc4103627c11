package webhook

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

const body = `{"type":"payment.paid","data":{"amount":350000}}`

func keys(t *testing.T, secrets ...string) *Keys {
	t.Helper()
	k, err := New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signed(t *testing.T, k *Keys, at time.Time) http.Header {
	t.Helper()
	h := http.Header{}
	if err := k.Sign(h, "evt_1", at, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return h
}

// The example of the specification's reference libraries: a secret, a message and the signature that all of them make.
func TestSign_AgreesWithTheReferenceExample(t *testing.T) {
	k := keys(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	h := http.Header{}
	if err := k.Sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
}

func TestVerify_TakesWhatWasSigned(t *testing.T) {
	k := keys(t, NewSecret())
	id, err := k.Verify(signed(t, k, time.Now()), []byte(body))
	if err != nil || id != "evt_1" {
		t.Errorf("Verify = %q, %v", id, err)
	}
}

func TestVerify_RefusesWhatIsNotGenuine(t *testing.T) {
	k := keys(t, NewSecret())
	change := func(header, value string) func(http.Header) {
		return func(h http.Header) { h.Set(header, value) }
	}
	for name, c := range map[string]struct {
		at   time.Time
		edit func(http.Header)
		body string
	}{
		"a byte more":         {at: time.Now(), body: body + " "},
		"another amount":      {at: time.Now(), body: strings.Replace(body, "350000", "1", 1)},
		"no body":             {at: time.Now(), body: "\x00"},
		"another id":          {at: time.Now(), edit: change("webhook-id", "evt_2")},
		"a long id":           {at: time.Now(), edit: change("webhook-id", strings.Repeat("e", 4000))},
		"no id":               {at: time.Now(), edit: func(h http.Header) { h.Del("webhook-id") }},
		"another time":        {at: time.Now(), edit: change("webhook-timestamp", "1614265330")},
		"a time in words":     {at: time.Now(), edit: change("webhook-timestamp", "now")},
		"no signature":        {at: time.Now(), edit: func(h http.Header) { h.Del("webhook-signature") }},
		"no version":          {at: time.Now(), edit: func(h http.Header) { h.Set("webhook-signature", h.Get("webhook-signature")[3:]) }},
		"an unknown version":  {at: time.Now(), edit: func(h http.Header) { h.Set("webhook-signature", "v2"+h.Get("webhook-signature")[2:]) }},
		"too old":             {at: time.Now().Add(-6 * time.Minute)},
		"from the future":     {at: time.Now().Add(6 * time.Minute)},
		"an empty signature":  {at: time.Now(), edit: change("webhook-signature", "v1,")},
		"a foreign signature": {at: time.Now(), edit: change("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")},
	} {
		h := signed(t, k, c.at)
		if c.edit != nil {
			c.edit(h)
		}
		sent := body
		if c.body != "" {
			sent = c.body
		}
		if id, err := k.Verify(h, []byte(sent)); err == nil || id != "" {
			t.Errorf("%s: taken as %q", name, id)
		}
	}
}

func TestVerify_TakesEitherSecretWhileOneIsExchanged(t *testing.T) {
	before, after := NewSecret(), NewSecret()
	both := keys(t, after, before)
	for name, sender := range map[string]*Keys{"old": keys(t, before), "new": keys(t, after), "both": both} {
		if _, err := both.Verify(signed(t, sender, time.Now()), []byte(body)); err != nil {
			t.Errorf("signed with %s: %v", name, err)
		}
	}
	if _, err := keys(t, before).Verify(signed(t, both, time.Now()), []byte(body)); err != nil {
		t.Errorf("signed with both, known by the old one: %v", err)
	}
	if _, err := keys(t, after).Verify(signed(t, keys(t, before), time.Now()), []byte(body)); err == nil {
		t.Error("the old secret still counts after the exchange")
	}
}

func TestNew_RefusesBadSecretsWithoutShowingThem(t *testing.T) {
	short := base64.StdEncoding.EncodeToString([]byte("0123456789"))
	for _, secret := range []string{"", "whsec_", "whsec_" + short, short, "whsec_not-base64!", strings.TrimPrefix(NewSecret(), "whsec_"),
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		_, err := New(NewSecret(), secret)
		if err == nil {
			t.Errorf("%q is taken", secret)
			continue
		}
		if !strings.Contains(err.Error(), "secret 2") {
			t.Errorf("error doesn't say which one: %v", err)
		}
		if secret != "" && secret != "whsec_" && strings.Contains(err.Error(), secret) {
			t.Errorf("error shows the secret: %v", err)
		}
	}
	if _, err := New(); err == nil {
		t.Error("no secret at all is taken")
	}
	if _, err := New("  " + NewSecret() + "\n"); err != nil {
		t.Errorf("a secret from a file that ends in a new line: %v", err)
	}
}
