package crowd

import (
	"net/http"
	"strings"
)

// jar keeps the cookies of one visitor at one origin. It knows names, values and paths, which is all the edge
// uses, and costs a few words while it is empty. It is not safe for concurrent use.
type jar struct {
	cookies []cookie
}

type cookie struct{ name, value, path string }

// maxCookies is the most a jar holds; browsers keep about 180 per site, a crowd needs a handful.
const maxCookies = 16

// take stores what an answer set and forgets what it deleted.
func (j *jar) take(h http.Header) {
	for _, line := range h["Set-Cookie"] {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			continue
		}
		j.set(cookie{c.Name, c.Value, c.Path}, c.MaxAge < 0)
	}
}

func (j *jar) set(c cookie, deleted bool) {
	if c.path == "" {
		c.path = "/"
	}
	for i, old := range j.cookies {
		if old.name != c.name || old.path != c.path {
			continue
		}
		if deleted {
			j.cookies = append(j.cookies[:i], j.cookies[i+1:]...)
		} else {
			j.cookies[i] = c
		}
		return
	}
	if !deleted && len(j.cookies) < maxCookies {
		j.cookies = append(j.cookies, c)
	}
}

// header returns the Cookie header for path, empty if no cookie belongs there.
func (j *jar) header(path string) string {
	var b strings.Builder
	for _, c := range j.cookies {
		if !within(path, c.path) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.name)
		b.WriteByte('=')
		b.WriteString(c.value)
	}
	return b.String()
}

// get returns the value of the cookie called name, with or without a __Host- or __Secure- prefix.
func (j *jar) get(name string) string {
	for _, c := range j.cookies {
		if bareName(c.name) == name {
			return c.value
		}
	}
	return ""
}

func bareName(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "__Host-"), "__Secure-")
}

// within is the path match of RFC 6265, section 5.1.4.
func within(path, scope string) bool {
	if !strings.HasPrefix(path, scope) {
		return false
	}
	return len(path) == len(scope) || strings.HasSuffix(scope, "/") || path[len(scope)] == '/'
}
