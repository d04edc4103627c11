package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	realclientip "github.com/realclientip/realclientip-go"
)

// clientInfo is who is at the other end, as far as we believe it.
type clientInfo struct {
	IP      netip.Addr // of the visitor; no zone, IPv4 unmapped; invalid if unknown
	TLS     bool       // the visitor came by TLS, to us or to a trusted proxy
	Trusted bool       // the peer is a trusted proxy: its forwarding headers are believed and passed on
}

// trust knows the proxies in front of us. It is immutable.
type trust struct {
	proxies []netip.Prefix
	xff     realclientip.RightmostTrustedRangeStrategy
	rfc7239 realclientip.RightmostTrustedRangeStrategy
}

// newTrust believes forwarding headers from peers inside proxies only. None: from nobody.
func newTrust(proxies []netip.Prefix) *trust {
	ranges := make([]net.IPNet, 0, len(proxies))
	for _, p := range proxies {
		p = p.Masked()
		ranges = append(ranges, net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	t := &trust{proxies: proxies}
	// The only error is a header name that the strategy does not know.
	t.xff, _ = realclientip.NewRightmostTrustedRangeStrategy("X-Forwarded-For", ranges)
	t.rfc7239, _ = realclientip.NewRightmostTrustedRangeStrategy("Forwarded", ranges)
	return t
}

// client tells who sent r. The peer is asked first: the strategies of realclientip-go believe any peer.
// X-Forwarded-For goes before Forwarded; a list of nothing but trusted addresses, or a broken one, leaves
// the peer's own address.
func (t *trust) client(r *http.Request) clientInfo {
	c := clientInfo{IP: peer(r.RemoteAddr), TLS: r.TLS != nil}
	if !t.trusts(c.IP) {
		return c
	}
	c.Trusted = true
	c.TLS = forwardedTLS(r.Header, c.TLS)
	strategy := t.xff
	if len(r.Header["X-Forwarded-For"]) == 0 {
		strategy = t.rfc7239
	}
	if ip := address(strategy.ClientIP(r.Header, r.RemoteAddr)); ip.IsValid() {
		c.IP = ip
	}
	return c
}

func (t *trust) trusts(ip netip.Addr) bool {
	for _, p := range t.proxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

func peer(remoteAddr string) netip.Addr {
	host, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		host = remoteAddr
	}
	return address(host)
}

func address(s string) netip.Addr {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

// forwardedTLS reads what the nearest proxy says of the visitor's scheme; silence keeps ours.
func forwardedTLS(h http.Header, ours bool) bool {
	if v := h.Values("X-Forwarded-Proto"); len(v) > 0 {
		return strings.EqualFold(lastItem(v[len(v)-1]), "https")
	}
	if v := h.Values("Forwarded"); len(v) > 0 {
		for pair := range strings.SplitSeq(lastItem(v[len(v)-1]), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if strings.EqualFold(name, "proto") {
				return strings.EqualFold(strings.Trim(value, `"`), "https")
			}
		}
	}
	return ours
}

func lastItem(list string) string {
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}
