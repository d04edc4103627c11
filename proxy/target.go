package proxy

import (
	"net/http"
	"strings"
)

// refusal is a request that is answered without looking at rooms at all. Whoever writes the answer should
// let the connection of an HTTP/1 client close after it: what follows such a request may not be one.
type refusal struct {
	status int
	slug   string // problem type: bad-target, bad-request, method-not-allowed, expectation-failed
	detail string // fixed words, nothing of the client's
}

// methods are the ones a site may be asked: HTTP's own, WebDAV's and its relatives'. CONNECT and TRACE are
// not among them, and names are case sensitive (RFC 9110 section 9.1).
var methods = func() map[string]struct{} {
	set := make(map[string]struct{})
	for m := range strings.FieldsSeq(`GET HEAD POST PUT PATCH DELETE OPTIONS
		PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK
		VERSION-CONTROL REPORT CHECKOUT CHECKIN UNCHECKOUT MKWORKSPACE UPDATE LABEL MERGE BASELINE-CONTROL MKACTIVITY
		ACL SEARCH ORDERPATCH MKCALENDAR BIND UNBIND REBIND MKREDIRECTREF UPDATEREDIRECTREF`) {
		set[m] = struct{}{}
	}
	return set
}()

// judgeTarget takes the request target apart without changing a byte: rawPath is everything before the first
// '?', rawQuery the rest with its '?' ("" when there is none). What is judged here and in [table.match] is what
// [upstream.serve] forwards.
//
// It sets r.Host to the canonical host: lower case, no trailing dot, no default port. A refusal comes for a
// method outside the list (405), a target that is not a plain path (400: absolute-form, "*", a start with "//"),
// a missing or odd Host (400), and an Expect other than exactly 100-continue (417).
func judgeTarget(r *http.Request) (rawPath, rawQuery string, problem *refusal) {
	if r.Method == "PRI" {
		return "", "", &refusal{http.StatusBadRequest, "bad-request", "This address does not speak HTTP/2 without TLS."}
	}
	if _, known := methods[r.Method]; !known {
		return "", "", &refusal{http.StatusMethodNotAllowed, "method-not-allowed", "This method is not served here."}
	}
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return "", "", &refusal{http.StatusBadRequest, "bad-target", "The request target must be a path that starts with one slash."}
	}
	host, ok := canonicalHost(r.Host, r.TLS != nil)
	if !ok || !sameHostField(r, host) {
		return "", "", &refusal{http.StatusBadRequest, "bad-target", "The Host is missing or not a host name."}
	}
	if !plainExpectation(r.Header["Expect"]) {
		return "", "", &refusal{http.StatusExpectationFailed, "expectation-failed", "The only expectation met here is 100-continue."}
	}
	r.Host = host
	rawPath = target
	if i := strings.IndexByte(target, '?'); i >= 0 {
		rawPath, rawQuery = target[:i], target[i:]
	}
	return rawPath, rawQuery, nil
}

func plainExpectation(values []string) bool {
	switch len(values) {
	case 0:
		return true
	case 1:
		return strings.EqualFold(values[0], "100-continue")
	}
	return false
}

// sameHostField refuses an HTTP/2 request whose host field says something else than its :authority. Over
// HTTP/1 the server has taken the field out of the header already.
func sameHostField(r *http.Request, host string) bool {
	for _, v := range r.Header["Host"] {
		if h, ok := canonicalHost(v, r.TLS != nil); !ok || h != host {
			return false
		}
	}
	return true
}

// canonicalHost brings a Host to the one spelling that is matched and forwarded. Only the letters of host
// names and IP literals are taken: no user, no zone, no percent sign, nothing outside ASCII (an international
// name comes as punycode).
func canonicalHost(raw string, tls bool) (string, bool) {
	name, port, ok := splitHost(raw)
	if !ok {
		return "", false
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return "", false
	}
	if port == "" || port == "80" && !tls || port == "443" && tls {
		return name, true
	}
	return name + ":" + port, true
}

// splitHost parts name and port (without its colon) and says whether both are made of allowed bytes.
func splitHost(raw string) (name, port string, ok bool) {
	if end := strings.IndexByte(raw, ']'); end >= 0 {
		name, port = raw[:end+1], raw[end+1:]
		if len(name) < 4 || name[0] != '[' || strings.Trim(name[1:end], "0123456789abcdefABCDEF:.") != "" {
			return "", "", false
		}
	} else {
		name, port = raw, ""
		if i := strings.IndexByte(raw, ':'); i >= 0 {
			name, port = raw[:i], raw[i:]
		}
		for i := range len(name) {
			if !hostByte(name[i]) {
				return "", "", false
			}
		}
	}
	if port == "" {
		return name, "", true
	}
	port = port[1:]
	if raw[len(name)] != ':' || len(port) > 5 || strings.Trim(port, "0123456789") != "" {
		return "", "", false
	}
	return name, port, true
}

func hostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
}
