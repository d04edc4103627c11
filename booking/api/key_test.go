package api

import (
	"net/http"
	"strings"
	"testing"
)

func keysOf(secrets ...string) keyring {
	var k keyring
	for _, s := range secrets {
		k.secrets = append(k.secrets, []byte(s))
	}
	return k
}

func TestCustomerKey_ProvesItsCustomer(t *testing.T) {
	k := keysOf("new", "old")
	for _, who := range []string{"an", "guest-1", strings.Repeat("x", 200), "Ân ~.,;"} {
		for _, key := range []string{k.make(who), keysOf("old").make(who)} {
			if got, ok := k.customer(key); !ok || got != who {
				t.Errorf("got %q %v, want %q", got, ok, who)
			}
		}
	}
}

func TestCustomerKey_CannotBeMadeOrChanged(t *testing.T) {
	k := keysOf("secret")
	key := k.make("an")
	other := k.make("binh")
	for _, forged := range []string{
		"", "c1.", "c1..", "an", keysOf("else").make("an"), strings.Replace(key, "c1.", "c2.", 1), key + "A", key[:len(key)-1], key + "=",
		other[:strings.LastIndex(other, ".")] + key[strings.LastIndex(key, "."):], "c1.YW4", "c1.YW4.", key + "." + key, " " + key,
	} {
		if who, ok := k.customer(forged); ok {
			t.Errorf("%q is believed to be %q's", forged, who)
		}
	}
	last := key[len(key)-1]
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if _, ok := k.customer(key[:len(key)-1] + string(c)); ok && byte(c) != last {
			t.Errorf("the last letter %c does as well as %c", c, last)
		}
	}
}

func FuzzCustomerKey_IsNobodysUnlessWeMadeIt(f *testing.F) {
	k := keysOf("secret")
	f.Add(k.make("an"))
	f.Add("c1.YW4.AAAA")
	f.Fuzz(func(t *testing.T, key string) {
		if who, ok := k.customer(key); ok && k.make(who) != key {
			t.Errorf("%q is believed to be %q's, whose key is %q", key, who, k.make(who))
		}
	})
}

func TestCustomerKey_IsKeptInACookieNewestFirst(t *testing.T) {
	s := newStand(t, func(c *Config) { c.TLS = func(*http.Request) bool { return true } })
	k := s.api.keys
	var value []string
	for _, who := range []string{"a", "b", "an", "c", "d", "e", "f"} {
		value = append(value, k.make(who))
	}
	got := s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", an, "Cookie", keyCookie+"="+k.make("planted")+"; "+hostCookie+"="+strings.Join(value, keysApart)).is(201, "")
	cookie := got.Result().Cookies()[0]
	if cookie.Name != hostCookie || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.MaxAge != 90*24*3600 {
		t.Errorf("got %+v", cookie)
	}
	var who []string
	for _, key := range strings.Split(cookie.Value, keysApart) {
		name, _ := k.customer(key)
		who = append(who, name)
	}
	if want := "an a b c d"; strings.Join(who, " ") != want {
		t.Errorf("got %v, want %s", who, want)
	}
	s.do("GET", "/v1/bookings/"+got.text("holdId"), "", "Cookie", hostCookie+"="+cookie.Value).is(200, "")
}

func TestCustomerKey_IsSecureOnlyOverTLS(t *testing.T) {
	s := newStand(t)
	got := s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", an).is(201, "")
	if got.Result().Cookies()[0].Secure {
		t.Error("a browser without TLS would throw the cookie away")
	}
}

func TestCustomerKey_IsNeverLogged(t *testing.T) {
	s := newStand(t)
	got := s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", an).is(201, "")
	key := got.Header().Get("X-Customer-Key")
	s.core.fail = http.ErrBodyNotAllowed // an error of ours
	s.do("POST", "/v1/bookings/"+got.text("holdId")+"/cancel", `{"x":"confided"}`, "X-Queue-Token", an, "X-Customer-Key", key).is(500, "internal")
	if l := s.log.String(); l == "" || strings.Contains(l, key) || strings.Contains(l, an) || strings.Contains(l, "confided") {
		t.Errorf("logged: %s", l)
	}
}
