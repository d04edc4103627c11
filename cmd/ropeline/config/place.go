package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// badHost says what is wrong with a host name, which is compared as it is with the canonical form of what a visitor
// asks for.
func badHost(host string) string {
	const form = "write a host name like tickets.example.com"
	switch {
	case host == "" || len(host) > 253:
		return "is empty or too long, " + form
	case host != strings.ToLower(host):
		return "has capitals, write it in lower case"
	case strings.HasSuffix(host, "."):
		return "ends in a dot, write it without"
	case strings.Contains(host, "*"):
		return "has a *, name each host, or leave hosts out for every host"
	case strings.Contains(host, "://") || strings.Contains(host, "/"):
		return "is more than a host, " + form
	case strings.Contains(host, ":"):
		return "has a port or is an IPv6 address, write a host name without a port"
	case strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "has letters beyond ASCII, write it as browsers send it, beginning with xn--"
	}
	for label := range strings.SplitSeq(host, ".") {
		bad := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
		if label == "" || len(label) > 63 || bad || label[0] == '-' || label[len(label)-1] == '-' {
			return "is not a host name, " + form
		}
	}
	if last := host[strings.LastIndexByte(host, '.')+1:]; digits(last) {
		if _, err := netip.ParseAddr(host); err != nil {
			return "is not a host name nor an address, " + form
		}
	}
	return ""
}

// badPrefix says what is wrong with a gated prefix. It is written decoded, so a percent sign has no business there.
func badPrefix(path string) string {
	switch {
	case path == "/":
		return "is the whole host, leave paths out for that"
	case strings.Contains(path, "%"):
		return "has percent encoding, write the character itself"
	}
	return badPath(path, path)
}

// badPublic says what is wrong with a public path. It is compared byte for byte with what a client sends.
func badPublic(path string) string {
	if path == "/" {
		return "would open the front page with any query, which on many sites is every page; name other paths"
	}
	for i := 0; i < len(path); i++ {
		if path[i] <= ' ' || path[i] >= 0x7f {
			return "has bytes that no browser sends, write them percent-encoded"
		}
	}
	decoded, err := url.PathUnescape(path)
	lower := strings.ToLower(path)
	switch {
	case err != nil:
		return "has a % that two hex digits must follow"
	case strings.Contains(lower, "%2f"), strings.Contains(lower, "%5c"), control(decoded), doubleEncoded(path):
		return "can be read in two ways (%2f, %5c, %25 before hex, control bytes, bad UTF-8), write a plain path"
	}
	return badPath(path, decoded)
}

// badPath says what is wrong with any path: raw as written, decoded as a site may read it.
func badPath(raw, decoded string) string {
	switch {
	case !strings.HasPrefix(raw, "/"):
		return "does not begin with /, write a path like /events/spring-tour/"
	case len(raw) > 1024:
		return "is longer than 1024 bytes"
	case strings.Contains(raw, "?"):
		return "has a query, which is never looked at; write the path alone"
	case strings.ContainsAny(raw, `\;#`), control(raw):
		return `can be read in two ways (\, ;, #, control bytes, bad UTF-8), write a plain path`
	case covers("/_ropeline", decoded):
		return "is below /_ropeline/, which is ours"
	}
	all := segments(decoded)
	if len(all) > 64 {
		return "has more than 64 segments"
	}
	if slices.Contains(all, "") || slices.Contains(all, ".") || slices.Contains(all, "..") {
		return "can be read in two ways (an empty or a dot segment), write a plain path"
	}
	return ""
}

// doubleEncoded reports whether decoding path once leaves percent encoding in it.
func doubleEncoded(path string) bool {
	for i := strings.Index(path, "%25"); i >= 0; {
		if i+4 < len(path) && isHex(path[i+3]) && isHex(path[i+4]) {
			return true
		}
		next := strings.Index(path[i+1:], "%25")
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// unescape decodes a path that badPublic let through.
func unescape(path string) string {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return path
	}
	return decoded
}

// covers reports whether a gated prefix holds path: /tickets/ holds /tickets and all below it, in any case.
func covers(prefix, path string) bool {
	want, have := segments(prefix), segments(path)
	if len(want) > len(have) {
		return false
	}
	for i := range want {
		if !strings.EqualFold(want[i], have[i]) {
			return false
		}
	}
	return true
}

// segments parts a path at its slashes; one slash at the end counts for nothing.
func segments(path string) []string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
