package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"
)

// Warnings says what is allowed in cfg but unwise, each a line of the form key: what it means, in the order of the
// file; the last are environment variables that name no key.
func Warnings(cfg *Config) []string {
	var out []string
	warn := func(key, format string, args ...any) {
		out = append(out, key+": "+fmt.Sprintf(format, args...))
	}
	if !loopback(cfg.AdminListen) {
		warn("admin_listen", "%s is not a loopback address, and the admin API asks nobody for a password; let only your network reach it", cfg.AdminListen)
	}
	for _, p := range cfg.TrustedProxies {
		if p.Bits() == 0 {
			warn("trusted_proxies", "%s trusts everyone, so any visitor can forge an address and an identity", p)
		}
	}
	switch cfg.Redis.URL {
	case "embedded":
		warn("redis.url", "embedded keeps lines inside this process: a restart loses them, only one process can serve, and the number of visitors is capped; for trying out only")
	case "auto":
		warn("redis.url", "auto keeps lines in a Redis of this process's own: two processes would be two lines; give the address of a shared one")
	}
	if cfg.Signing.KeysFile == "" {
		warn("signing.keys_file", "none is given, so keys are made once and kept in Redis: losing Redis and every node at once voids all places and sessions")
	}
	out = append(out, bookingWarnings(cfg)...)
	for i, r := range cfg.Rooms {
		label := fmt.Sprintf("rooms[%d] (%s)", i, r.ID)
		if len(r.Paths) > 0 {
			warn(label+".paths", "%s; a room on a whole host needs no such rule", oddPathsMean(r))
		}
		if len(r.Hosts) > 0 && r.Upstream.Host == cfg.Upstream.Host {
			warn(label+".hosts", "a request that names any other host passes to the same upstream, %s, without waiting; leave hosts out, or have that site refuse names that it does not know", upstreamText(r.Upstream))
		}
		if r.ForwardToken && cfg.Signing.Algorithm == "HS256" {
			warn(label+".forward_token", "with HS256 the site needs the secret to verify a token, and could sign its own; EdDSA needs only the public key")
		}
	}
	return append(out, cfg.notes...)
}

// oddPathsMean says what a room with paths means for the rest of its hosts.
func oddPathsMean(r Room) string {
	hosts := "every host"
	if len(r.Hosts) > 0 {
		hosts = strings.Join(r.Hosts, ", ")
	}
	if r.AmbiguousPaths == "gate" {
		return "on " + hosts + " a path that can be read in two ways counts as inside the room, wherever it leads"
	}
	return "on " + hosts + " a path that can be read in two ways is refused with 400, also outside the room"
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// unequal names the keys in which two structs differ, those in groups included.
func unequal(prefix string, old, new reflect.Value) (out []string) {
	for i := range old.NumField() {
		key, a, b := prefix+old.Type().Field(i).Tag.Get("mapstructure"), old.Field(i), new.Field(i)
		if a.Kind() == reflect.Struct {
			out = append(out, unequal(key+".", a, b)...)
		} else if fmt.Sprint(a.Interface()) != fmt.Sprint(b.Interface()) {
			out = append(out, key)
		}
	}
	return out
}

// NeedsRestart names the keys that differ between two configurations and whose change takes effect only when Ropeline
// starts anew. Everything it never names (rooms with all that is in them, upstream, log.level) takes effect live.
func NeedsRestart(old, new *Config) []string {
	var out []string
	note := func(key string, same bool) {
		if !same {
			out = append(out, key)
		}
	}
	note("listen", old.Listen == new.Listen)
	note("admin_listen", old.AdminListen == new.AdminListen)
	note("trusted_proxies", fmt.Sprint(old.TrustedProxies) == fmt.Sprint(new.TrustedProxies))
	note("tls.cert_file", old.TLS.CertFile == new.TLS.CertFile)
	note("tls.key_file", old.TLS.KeyFile == new.TLS.KeyFile)
	note("redis.url", old.Redis.URL == new.Redis.URL)
	note("signing.algorithm", old.Signing.Algorithm == new.Signing.Algorithm)
	note("signing.keys_file", old.Signing.KeysFile == new.Signing.KeysFile)
	note("log.format", old.Log.Format == new.Log.Format)
	note("shutdown_grace", old.ShutdownGrace == new.ShutdownGrace)
	if old.UsesBooking() || new.UsesBooking() {
		out = append(out, unequal("booking.", reflect.ValueOf(old.Booking), reflect.ValueOf(new.Booking))...)
	}
	return out
}
