package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checker holds a decoded configuration to the rules that a type alone does not say. It also settles the defaults
// that depend on other keys. What is wrong already is not looked at again.
type checker struct {
	*findings
	cfg    *Config
	labels []string // what each room is called in problems
}

func (c *checker) check() {
	c.listen("listen", c.cfg.Listen)
	c.listen("admin_listen", c.cfg.AdminListen)
	if host, _, _ := net.SplitHostPort(c.cfg.AdminListen); host == "" && c.ok("admin_listen") {
		c.add("admin_listen", "%s names no host, write the address to listen on, like 127.0.0.1:9901", quote(c.cfg.AdminListen))
	}
	if c.ok("listen", "admin_listen") && sameAddress(c.cfg.Listen, c.cfg.AdminListen) {
		c.add("admin_listen", "%s is what listen has too, give it a port of its own", quote(c.cfg.AdminListen))
	}
	if (c.cfg.TLS.CertFile == "") != (c.cfg.TLS.KeyFile == "") && c.ok("tls") {
		c.add("tls", "has only one of cert_file and key_file, give both or neither")
	}
	if message := checkRedis(c.cfg.Redis.URL); message != "" && c.ok("redis.url") {
		c.add("redis.url", "%s", message)
	}
	c.upstream("upstream", c.cfg.Upstream)
	c.word("signing.algorithm", c.cfg.Signing.Algorithm, "EdDSA", "HS256")
	c.word("log.level", c.cfg.Log.Level, "debug", "info", "warn", "error")
	c.word("log.format", c.cfg.Log.Format, "json", "text")
	c.between("shutdown_grace", c.cfg.ShutdownGrace, time.Second, 10*time.Minute)
	c.booking()
	for i := range c.cfg.Rooms {
		c.room(&c.cfg.Rooms[i], c.labels[i])
	}
	c.together()
}

// word checks that one of a few words was given.
func (c *checker) word(key, got string, allowed ...string) {
	if !c.ok(key) || slices.Contains(allowed, got) {
		return
	}
	c.add(key, "is %s, allowed are %s", quote(got), strings.Join(allowed, ", "))
}

// between checks that a duration is in its range, ends included.
func (c *checker) between(key string, got, low, high time.Duration) {
	if c.ok(key) && (got < low || got > high) {
		c.add(key, "is %s, allowed is %s to %s", brief(got), brief(low), brief(high))
	}
}

func (c *checker) listen(key, address string) {
	if !c.ok(key) {
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || !validPort(port) || host != "" && !validListenHost(host) {
		c.add(key, "%s is not an address to listen on, write host:port, like 127.0.0.1:8080", quote(address))
	}
}

// upstream checks that an upstream is not ourselves.
func (c *checker) upstream(key string, u *url.URL) {
	if u == nil || IsBooking(u) || !c.ok(key) {
		return
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	address := net.JoinHostPort(u.Hostname(), port)
	for _, own := range []struct{ key, address string }{{"listen", c.cfg.Listen}, {"admin_listen", c.cfg.AdminListen}} {
		if c.ok(own.key) && sameAddress(own.address, address) {
			c.add(key, "%s is our own %s address and would loop, write the address of your site", quote(u.String()), own.key)
		}
	}
}

// sameAddress reports whether a connection to b would surely reach a listener on a.
func sameAddress(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	if numA, _ := strconv.Atoi(portA); numA == 0 {
		return false // any free port
	} else if numB, _ := strconv.Atoi(portB); numA != numB {
		return false
	}
	if strings.EqualFold(hostA, hostB) {
		return true
	}
	local := reach(hostB)
	for _, addr := range reach(hostA) {
		if slices.Contains(local, addr) {
			return true
		}
	}
	return anyAddress(hostA) && slices.ContainsFunc(local, netip.Addr.IsLoopback)
}

// reach is where a host surely leads: localhost and "every address" lead to the two loopback addresses.
func reach(host string) []netip.Addr {
	if anyAddress(host) || strings.EqualFold(host, "localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return []netip.Addr{addr.Unmap()}
}

func anyAddress(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.Unmap().IsUnspecified()
}

func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return digits(port) && err == nil && n <= 65535
}

func validListenHost(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || badHost(strings.ToLower(host)) == ""
}

// validAuthority reports whether u names a host, and a port that is none or one to connect to.
func validAuthority(u *url.URL) bool {
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err != nil && badHost(strings.ToLower(host)) != "" {
		return false
	}
	port := u.Port()
	return port == "" && !strings.HasSuffix(u.Host, ":") || validPort(port) && strings.Trim(port, "0") != ""
}

// checkRedis says what is wrong with redis.url. It never repeats the address, which may hold a password.
func checkRedis(address string) string {
	const form = "allowed are auto, embedded, redis://host:6379/0, redis://a,b,c (Cluster) and redis://a,b?master=NAME (Sentinel), or rediss://"
	if address == "auto" || address == "embedded" {
		return ""
	}
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "redis" && scheme != "rediss" {
		return "is not an address of Redis, " + form
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, db, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		if _, err := url.Parse("redis://" + hosts[:i] + "@x"); err != nil {
			return "has a user or password that is not percent-encoded, " + form
		}
		hosts = hosts[i+1:]
	}
	values, err := url.ParseQuery(query)
	if err != nil || strings.Contains(address, "#") || values.Has("master") && values.Get("master") == "" {
		return "has a part after the ? that cannot be read, " + form
	}
	list := strings.Split(hosts, ",")
	for _, host := range list {
		if u, err := url.Parse("redis://" + host); err != nil || !validAuthority(u) {
			return "names no host, or one with a bad name or port, " + form
		}
	}
	n, err := strconv.Atoi(db)
	switch {
	case db != "" && (err != nil || !digits(db) || n > 10000):
		return "has a database that is not a number, " + form
	case n != 0 && len(list) > 1 && !values.Has("master"):
		return "has a database, but a Cluster has none, leave out /" + strconv.Itoa(n)
	}
	return ""
}

// brief is a duration without the zero units that time.Duration writes: 10m, not 10m0s.
func brief(d time.Duration) string {
	s := d.String()
	if d >= time.Minute && strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// list checks each of a list of texts, and that none is there twice.
func (c *checker) list(key string, texts []string, most int, wrong func(string) string) {
	if c.ok(key) && len(texts) > most {
		c.add(key, "are more than %d, write fewer", most)
		return
	}
	seen := map[string]int{}
	for i, text := range texts {
		at := indexed(key, i)
		if !c.ok(at) {
			continue
		}
		if message := wrong(text); message != "" {
			c.add(at, "%s %s", quote(text), message)
		} else if first, twice := seen[text]; twice {
			c.add(at, "%s is listed twice, the first time as %s[%d]", quote(text), lastStep(key), first)
		}
		seen[text] = i
	}
}

// indexed is the key of an entry of a list.
func indexed(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

func lastStep(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
