package api

import (
	"slices"
	"strings"
)

// route is one method of one path. A pattern's {} is the one segment that varies.
type route struct {
	method  string // GET stands for HEAD too
	pattern string
	words   words // of the answers
	foreign bool  // a program asks and no browser: pages of other sites don't matter
	serve   func(*API, *request) error
}

// routes are all there are, without the /v1 that each may have in front.
var routes = buildRoutes()

func buildRoutes() []route {
	all := []route{
		{method: "GET", pattern: "/openapi.json", serve: (*API).openAPI},
		{method: "GET", pattern: "/holds/{}", serve: (*API).showHold},
		{method: "DELETE", pattern: "/holds/{}", serve: (*API).release},
		{method: "POST", pattern: "/holds/{}/extend", serve: (*API).extend},
		{method: "POST", pattern: "/holds/{}/checkout", serve: (*API).checkout},
		{method: "POST", pattern: "/payments/callback", foreign: true, serve: (*API).callback},
		{method: "POST", pattern: "/payments/callback/{}", foreign: true, serve: (*API).callback},
	}
	for _, w := range []words{{event: "event", booking: "booking"}, {event: "showtime", booking: "order", older: true}} {
		all = append(all,
			route{method: "GET", pattern: "/" + w.event + "s/{}", words: w, serve: (*API).showEvent},
			route{method: "GET", pattern: "/" + w.event + "s/{}/", words: w, serve: (*API).showPage},
			route{method: "GET", pattern: "/" + w.event + "s/{}/layout", words: w, serve: (*API).showLayout},
			route{method: "GET", pattern: "/" + w.event + "s/{}/seats", words: w, serve: (*API).showSeats},
			route{method: "POST", pattern: "/" + w.event + "s/{}/holds", words: w, serve: (*API).hold},
			route{method: "GET", pattern: "/" + w.booking + "s/{}", words: w, serve: (*API).showBooking},
			route{method: "POST", pattern: "/" + w.booking + "s/{}/cancel", words: w, serve: (*API).cancel},
			route{method: "POST", pattern: "/" + w.booking + "s/{}/confirm", words: w, foreign: true, serve: (*API).confirm},
		)
	}
	return all
}

// version is what a path may have in front.
const version = "/v1"

// found is what a path leads to.
type found struct {
	base   string // "/v1" or ""
	arg    string // the segment that varies
	routes []*route
}

// match compares a path as it was sent, byte by byte: nothing is decoded, cleaned or folded.
func match(rawPath string) found {
	var f found
	if rest, ok := strings.CutPrefix(rawPath, version+"/"); ok {
		f.base, rawPath = version, "/"+rest
	}
	for i := range routes {
		before, after, varies := strings.Cut(routes[i].pattern, "{}")
		if !varies {
			if rawPath == before {
				f.routes = append(f.routes, &routes[i])
			}
			continue
		}
		arg, ok := strings.CutPrefix(rawPath, before)
		if arg, ok = cutSuffix(arg, after, ok); ok && plainSegment(arg) {
			f.arg, f.routes = arg, append(f.routes, &routes[i])
		}
	}
	return f
}

func cutSuffix(s, suffix string, before bool) (string, bool) {
	s, ok := strings.CutSuffix(s, suffix)
	return s, ok && before
}

// byMethod returns the route that serves the method, or nil.
func (f found) byMethod(method string) *route {
	if method == "HEAD" {
		method = "GET"
	}
	for _, one := range f.routes {
		if one.method == method {
			return one
		}
	}
	return nil
}

// allow is the Allow header of the path.
func (f found) allow() string {
	var methods []string
	for _, one := range f.routes {
		methods = append(methods, one.method)
		if one.method == "GET" {
			methods = append(methods, "HEAD")
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// Owns reports whether a path, as it was sent, is the API's own business: then the API itself says who may do what, and
// nobody needs to stand in line to be told. The pages of the shop (/events/{id}/, with the slash) and the addresses of the
// waiting room (/events/{id}/queue and /status) are not. A path that is spelled oddly never is.
func Owns(rawPath string) bool {
	rest, versioned := strings.CutPrefix(rawPath, version+"/")
	if !versioned {
		var ok bool
		if rest, ok = strings.CutPrefix(rawPath, "/"); !ok {
			return false
		}
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		if s == "" && i == len(segments)-1 && i > 0 {
			segments = segments[:i]
			break
		}
		if !plainSegment(s) {
			return false
		}
	}
	slash := strings.HasSuffix(rest, "/")
	switch segments[0] {
	case "openapi.json":
		return len(segments) == 1 && !slash
	case "holds", "payments", "orders", "bookings":
		return len(segments) > 1
	case "events", "showtimes":
		if len(segments) > 2 && (segments[2] == "queue" || segments[2] == "status") {
			return false
		}
		page := len(segments) == 2 && slash
		return len(segments) > 1 && digits(segments[1]) && (versioned || !page)
	}
	return versioned
}

// plainSegment is true for what no reader takes for anything else: letters, digits, and - _ . : inside.
func plainSegment(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != ':' {
			return false
		}
	}
	return true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// mentionsHolds reports whether a decoded path has /holds in it, in any case.
func mentionsHolds(path string) bool { return strings.Contains(strings.ToLower(path), "/holds") }
