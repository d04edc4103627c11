package proxy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ambiguous reports whether two readers could take rawPath for different paths. On a host with path rooms
// such a target has no safe answer to the question "is this inside the room?".
//
// It looks at the path once decoded: '/' '\' ';' '#' '?' and control bytes that came percent-encoded (plain
// ones too, but for '/'), a '%' that a second decoder would read on, dot segments, empty segments, bytes that
// are no UTF-8, and escapes that are none. One pass, no allocation.
func ambiguous(rawPath string) bool {
	if rawPath == "" || rawPath[0] != '/' {
		return true
	}
	var (
		segment int  // decoded bytes since the last slash
		dots    int  // how many of them are dots
		high    bool // a byte outside ASCII was seen
		percent bool // the byte before was a decoded '%'
	)
	for i := 1; i < len(rawPath); i++ {
		c := rawPath[i]
		if c == '/' {
			if segment == 0 || dotSegment(segment, dots) {
				return true
			}
			segment, dots, percent = 0, 0, false
			continue
		}
		if c == '%' {
			d, ok := unescape(rawPath[i:])
			if !ok || d == '/' || d == '?' {
				return true
			}
			c, i = d, i+2
		}
		if c < 0x20 || c == 0x7f || c == '\\' || c == ';' || c == '#' || c == '?' {
			return true
		}
		if percent && (ishex(c) || c == 'u' || c == 'U') {
			return true
		}
		percent = c == '%'
		high = high || c >= utf8.RuneSelf
		segment++
		if c == '.' {
			dots++
		}
	}
	return dotSegment(segment, dots) || high && !utf8.ValidString(decode(rawPath))
}

func dotSegment(length, dots int) bool { return length == dots && (dots == 1 || dots == 2) }

// unescape reads the escape that s starts with.
func unescape(s string) (byte, bool) {
	if len(s) < 3 || !ishex(s[1]) || !ishex(s[2]) {
		return 0, false
	}
	return unhex(s[1])<<4 | unhex(s[2]), true
}

func ishex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

// decode undoes percent-encoding once; what is no escape stays.
func decode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if d, ok := unescape(s[i:]); ok {
				c, i = d, i+2
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// sameSegment reports whether a raw path segment names want (already decoded) to some reader: percent-decoded,
// letter case folded ([strings.EqualFold], so U+212A and U+017F too, and the Turkish i's, which other languages'
// upper case merges), dots and spaces at the end dropped as Windows does.
func sameSegment(raw, want string) bool {
	if plainASCII(raw) && plainASCII(want) {
		return strings.EqualFold(strings.TrimRight(raw, ". "), strings.TrimRight(want, ". "))
	}
	raw, want = strings.TrimRight(decode(raw), ". "), strings.TrimRight(want, ". ")
	if strings.EqualFold(raw, want) {
		return true
	}
	for len(raw) > 0 && len(want) > 0 {
		a, n := utf8.DecodeRuneInString(raw)
		b, m := utf8.DecodeRuneInString(want)
		if a != b && !strings.EqualFold(raw[:n], want[:m]) && unicode.ToLower(unicode.ToUpper(a)) != unicode.ToLower(unicode.ToUpper(b)) {
			return false
		}
		raw, want = raw[n:], want[m:]
	}
	return raw == want
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || s[i] == '%' {
			return false
		}
	}
	return true
}
