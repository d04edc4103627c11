package config

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxActiveLimit = 10_000_000
	maxSession     = 12 * time.Hour // with a claim window on top still within the day an access token may live
	maxList        = 1000           // hosts, paths and public paths of one room
)

// room checks one room by itself and settles its defaults.
func (c *checker) room(r *Room, label string) {
	key := func(name string) string { return label + "." + name }
	if c.ok(key("id")) && !validID(r.ID) {
		c.add(key("id"), "%s is not an id, allowed are 1 to 64 of a-z, 0-9 and -", quote(r.ID))
	}
	if c.ok(key("id")) && r.ID == "customer" && c.cfg.UsesBooking() {
		c.add(key("id"), "%s would share a cookie with the booking core, choose another id", quote(r.ID))
	}
	if r.Title == "" {
		r.Title = r.ID
	}
	c.text(key("title"), r.Title, 200)
	c.text(key("reason"), r.Reason, 500)
	if r.Upstream == nil {
		r.Upstream = c.cfg.Upstream
	} else {
		c.upstream(key("upstream"), r.Upstream)
	}
	c.places(r, label)
	c.word(key("state"), r.State, "open", "paused", "closed", "full")
	c.word(key("ambiguous_paths"), r.AmbiguousPaths, "refuse", "gate")
	c.word(key("on_outage"), r.OnOutage, "hold", "open")
	if c.ok(key("active_limit")) && (r.ActiveLimit < 1 || r.ActiveLimit > maxActiveLimit) {
		c.add(key("active_limit"), "is %d, allowed is 1 to %d (rate: 0 admits nobody)", r.ActiveLimit, maxActiveLimit)
	}
	c.identity(r, key("identity"))
	c.times(r, key)
	c.channels(key("channels"), r.Channels)
	c.languages(r, key("languages"))
	c.list(key("cors_origins"), r.CORSOrigins, maxList, badOrigin)
}

func (c *checker) text(key, text string, most int) {
	if n := utf8.RuneCountInString(text); c.ok(key) && n > most {
		c.add(key, "is %d characters long, allowed are %d", n, most)
	}
}

// places checks where the room stands: hosts, paths, public paths.
func (c *checker) places(r *Room, label string) {
	hosts, paths, public := label+".hosts", label+".paths", label+".public_paths"
	c.list(hosts, r.Hosts, maxList, badHost)
	c.list(paths, r.Paths, maxList, badPrefix)
	anywhere := len(r.Paths) == 0 || !c.ok(paths)
	gated := map[string]bool{}
	for _, prefix := range wanted(*r) {
		gated[fold(prefix)] = true
	}
	c.list(public, r.PublicPaths, maxList, func(path string) string {
		if message := badPublic(path); message != "" {
			return message
		}
		path = strings.TrimSuffix(unescape(path), "/")
		inside := func(above string) bool { return gated[fold(above)] }
		if !anywhere && !inside(path) && !slices.ContainsFunc(ancestors(path), inside) {
			return "is outside the room's paths, where nothing is gated; leave it out"
		}
		return ""
	})
}

func (c *checker) times(r *Room, key func(string) string) {
	c.between(key("session"), r.Session, time.Second, maxSession)
	c.between(key("session_max"), r.SessionMax, time.Second, maxSession)
	if r.Sliding && r.Session > r.SessionMax && c.ok(key("session"), key("session_max"), key("sliding")) {
		c.add(key("session"), "is %s, longer than session_max (%s); a sliding session must start within it",
			brief(r.Session), brief(r.SessionMax))
	}
	c.between(key("claim_window"), r.ClaimWindow, 10*time.Second, time.Hour)
	c.between(key("poll.min"), r.Poll.Min, time.Second, 5*time.Minute)
	c.between(key("poll.max"), r.Poll.Max, time.Second, 5*time.Minute)
	if c.ok(key("poll.min"), key("poll.max")) && r.Poll.Min > r.Poll.Max {
		c.add(key("poll.min"), "is %s, more than poll.max (%s)", brief(r.Poll.Min), brief(r.Poll.Max))
	}
	if c.ok(key("poll.budget")) && r.Poll.Budget < 1 {
		c.add(key("poll.budget"), "is %s, allowed is 1/s to %s", r.Poll.Budget, maxRate)
	}
}

// identity turns the rule into the name of the header, "" for the cookie.
func (c *checker) identity(r *Room, key string) {
	if !c.ok(key) {
		return
	}
	rule := r.Identity
	r.Identity = ""
	name, isHeader := strings.CutPrefix(rule, "header:")
	switch {
	case rule == "cookie":
	case !isHeader || !fieldName(name):
		c.add(key, "is %s, allowed are cookie and header:NAME", quote(rule))
	case reserved(name):
		c.add(key, "%s is a header that means something else, choose one of your own, as header:X-Customer", quote(name))
	case len(c.cfg.TrustedProxies) == 0 && c.ok("trusted_proxies"):
		c.add(key, "believes a header, but trusted_proxies names nobody who may send it; name your proxy there")
	default:
		r.Identity = http.CanonicalHeaderKey(name)
	}
}

func (c *checker) languages(r *Room, key string) {
	c.list(key, r.Languages, 2, func(language string) string {
		if language == "vi" || language == "en" {
			return ""
		}
		return "is not a language we have, allowed are vi, en"
	})
	if c.ok(key) && len(r.Languages) == 0 {
		c.add(key, "is empty, allowed are vi, en")
	}
}

// validID reports whether id is 1 to 64 of a-z, 0-9 and '-'.
func validID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// fieldName reports whether name is a field name of HTTP (RFC 9110 section 5.6.2), at most 64 bytes.
func fieldName(name string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
	})
}

// reserved reports whether a header has a meaning of its own, here or in HTTP. "_" counts as "-", as many servers do.
func reserved(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, begins := range []string{"x-ropeline-", "x-forwarded-", "sec-", "proxy-", "content-", "access-control-", "if-"} {
		if strings.HasPrefix(name, begins) {
			return true
		}
	}
	return slices.Contains([]string{"x-queue-token", "x-real-ip", "forwarded", "cookie", "set-cookie", "authorization",
		"host", "connection", "upgrade", "te", "trailer", "transfer-encoding", "keep-alive", "expect", "accept", "origin",
		"range", "via", "referer"}, name)
}

// badOrigin says what is wrong with an origin whose scripts may use the API.
func badOrigin(origin string) string {
	const form = "write one like https://tickets.example.com"
	u, err := url.Parse(origin)
	switch {
	case origin == "*":
		return "is not allowed, since the API knows visitors by a cookie; name each origin, " + form
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !validAuthority(u):
		return "is not an origin, " + form
	case origin != u.Scheme+"://"+u.Host || u.Host != strings.ToLower(u.Host):
		return "is more than a scheme, a host in lower case and a port, " + form
	case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443":
		return "names the port that its scheme has anyway, which no browser sends; leave it out"
	}
	return ""
}
