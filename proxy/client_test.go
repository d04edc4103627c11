package proxy

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"testing"
)

func TestTrust_BelievesForwardingHeadersOnlyFromTrustedPeers(t *testing.T) {
	tr := newTrust([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for _, c := range []struct {
		name, peer string
		tls        bool
		header     http.Header
		ip         string
		wantTLS    bool
		trusted    bool
	}{
		{"direct", "203.0.113.9:1", false, nil, "203.0.113.9", false, false},
		{"direct over TLS", "203.0.113.9:1", true, nil, "203.0.113.9", true, false},
		{"direct with lies", "203.0.113.9:1", false, http.Header{"X-Forwarded-For": {"6.6.6.6"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {"for=6.6.6.6;proto=https"}}, "203.0.113.9", false, false},
		{"proxied", "10.0.0.1:1", false, http.Header{"X-Forwarded-For": {"203.0.113.9"}, "X-Forwarded-Proto": {"https"}}, "203.0.113.9", true, true},
		{"proxied with a lie in front", "10.0.0.1:1", false, http.Header{"X-Forwarded-For": {"6.6.6.6, 203.0.113.9", "10.0.0.7"}}, "203.0.113.9", false, true},
		{"nearest proxy says http", "10.0.0.1:1", false, http.Header{"X-Forwarded-Proto": {"https, http"}}, "10.0.0.1", false, true},
		{"only trusted addresses", "10.0.0.1:1", false, http.Header{"X-Forwarded-For": {"10.0.0.3"}}, "10.0.0.1", false, true},
		{"broken list", "10.0.0.1:1", false, http.Header{"X-Forwarded-For": {"203.0.113.9, nonsense"}}, "10.0.0.1", false, true},
		{"RFC 7239", "[fd00::1]:1", false, http.Header{"Forwarded": {`for="[2001:db8::7]:99";proto=https`}}, "2001:db8::7", true, true},
		{"mapped peer", "[::ffff:10.0.0.1]:1", false, http.Header{"X-Forwarded-For": {"203.0.113.9"}}, "203.0.113.9", false, true},
		{"zone", "[fe80::1%eth0]:1", false, nil, "fe80::1", false, false},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: c.header}
		if r.Header == nil {
			r.Header = http.Header{}
		}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		got := tr.client(r)
		want := clientInfo{netip.MustParseAddr(c.ip), c.wantTLS, c.trusted}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
	if got := newTrust(nil).client(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"6.6.6.6"}}}); got.Trusted || got.IP.String() != "127.0.0.1" {
		t.Errorf("nobody is trusted: got %+v", got)
	}
}
