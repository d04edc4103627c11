package proxy

import (
	"net/http"
	"net/netip"
	"strings"
)

// The headers that tell the upstream who was let in. They have our values or none.
const (
	visitorHeader = "X-Ropeline-Visitor"
	roomHeader    = "X-Ropeline-Room"
	placeHeader   = "X-Ropeline-Place"
	sessionHeader = "X-Ropeline-Session"
	tokenHeader   = "X-Queue-Token"
)

const ourPrefix = "x-ropeline-"

// forwardingNames are headers that upstreams believe about the client or the target. Only a trusted proxy
// may send them. Every x-forwarded-* is one too.
var forwardingNames = []string{
	"forwarded", "x-forwarded", "x-real-ip", "x-original-url", "x-original-uri", "x-original-host", "x-rewrite-url",
	"x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip",
}

// cleanRequest takes out of h what a client must not tell the upstream: every spelling of our own headers
// (servers that make environment variables of headers see X_Ropeline_Visitor and X.Ropeline.Visitor as the
// same name), the access token, our cookies, Expect, and forwarding headers of a peer that is not trusted.
// A trusted peer's are kept under their plain names only.
func cleanRequest(h http.Header, trusted bool) {
	for name := range h {
		switch {
		case ours(name), !trusted && forwarding(name), forwarding(name) && strings.ContainsFunc(name, oddByte):
			delete(h, name)
		}
	}
	delete(h, "Expect")
	delete(h, "Http2-Settings")
	cleanCookies(h)
}

// ours reports whether a header or trailer name reads as one of ours to some server.
func ours(name string) bool {
	return foldedPrefix(name, ourPrefix) || len(name) == len(tokenHeader) && foldedPrefix(name, "x-queue-token")
}

func forwarding(name string) bool {
	if foldedPrefix(name, "x-forwarded-") {
		return true
	}
	for _, f := range forwardingNames {
		if len(name) == len(f) && foldedPrefix(name, f) {
			return true
		}
	}
	return false
}

// foldedPrefix compares letters without case, and takes every byte that is no letter or digit for '-'.
func foldedPrefix(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case oddByte(rune(c)):
			c = '-'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

// oddByte is true for what is neither a letter, a digit nor '-'.
func oddByte(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

// cleanCookies takes our cookies out and leaves the bytes of the others as they are.
func cleanCookies(h http.Header) {
	lines := h["Cookie"]
	kept := lines[:0]
	for _, line := range lines {
		if line = withoutOurCookies(line); line != "" {
			kept = append(kept, line)
		}
	}
	if len(lines) > 0 && len(kept) == 0 {
		delete(h, "Cookie")
	} else if len(lines) > 0 {
		h["Cookie"] = kept
	}
}

func withoutOurCookies(line string) string {
	if !mentionsOurCookie(line) {
		return line
	}
	var b strings.Builder
	for pair := range strings.SplitSeq(line, ";") {
		name, _, _ := strings.Cut(pair, "=")
		if ourCookie(strings.Trim(name, " \t")) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(';')
		} else {
			pair = strings.TrimLeft(pair, " \t")
		}
		b.WriteString(pair)
	}
	return b.String()
}

func mentionsOurCookie(line string) bool {
	for pair := range strings.SplitSeq(line, ";") {
		name, _, _ := strings.Cut(pair, "=")
		if ourCookie(strings.Trim(name, " \t")) {
			return true
		}
	}
	return false
}

// ourCookie knows ropeline_* and __Host-ropeline_*, in any case: nobody else has reason to use them.
func ourCookie(name string) bool {
	const prefix, secure = "ropeline_", "__Host-"
	if len(name) > len(secure) && strings.EqualFold(name[:len(secure)], secure) {
		name = name[len(secure):]
	}
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// setIdentity adds what the upstream may believe of the visitor. Without a room nothing is set.
func setIdentity(h http.Header, p *pass) {
	for _, f := range [...]struct{ name, value string }{
		{visitorHeader, p.Visitor}, {roomHeader, p.Room}, {placeHeader, p.Place}, {sessionHeader, p.Session}, {tokenHeader, p.Token},
	} {
		if f.value != "" {
			h[f.name] = []string{f.value}
		}
	}
}

// setForwarded writes X-Forwarded-For, -Proto and -Host from what we know, and carries on the lists of a
// trusted proxy (in, the header as it arrived).
func setForwarded(out, in http.Header, from netip.Addr, c clientInfo, host string) {
	chain, forHost := "", host
	if c.Trusted {
		chain = strings.Join(in["X-Forwarded-For"], ", ")
		if v := in.Get("X-Forwarded-Host"); v != "" {
			forHost = v
		}
		if v := in["Forwarded"]; len(v) > 0 {
			out["Forwarded"] = []string{strings.Join(v, ", ") + ", for=" + forwardedNode(from)}
		}
	}
	if chain != "" {
		chain += ", "
	}
	out["X-Forwarded-For"] = []string{chain + from.String()}
	out["X-Forwarded-Host"] = []string{forHost}
	proto := "http"
	if c.TLS {
		proto = "https"
	}
	out["X-Forwarded-Proto"] = []string{proto}
}

// forwardedNode is an address as RFC 7239 section 6 wants it.
func forwardedNode(ip netip.Addr) string {
	if ip.Is6() {
		return `"[` + ip.String() + `]"`
	}
	return ip.String()
}

// cleanResponse takes out what only we may tell the visitor, and Alt-Svc, which speaks of a connection
// that ends here.
func cleanResponse(h http.Header) {
	for name := range h {
		if foldedPrefix(name, ourPrefix) {
			delete(h, name)
		}
	}
	delete(h, "Alt-Svc")
}

// dropOurSetCookies keeps an upstream from setting our cookies, and the core's if it may not.
func dropOurSetCookies(h http.Header, core bool) {
	lines := h["Set-Cookie"]
	kept := lines[:0]
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ourCookie(name) || core && isCustomerCookie(name) {
			kept = append(kept, line)
		}
	}
	switch {
	case len(kept) == len(lines):
	case len(kept) == 0:
		delete(h, "Set-Cookie")
	default:
		h["Set-Cookie"] = kept
	}
}

// cleanInformational leaves of a 1xx answer what may travel further than one hop and is not personal.
func cleanInformational(h http.Header) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Set-Cookie",
	} {
		delete(h, name)
	}
	cleanResponse(h)
}
