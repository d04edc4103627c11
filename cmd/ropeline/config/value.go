package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// as reads v as a value of type t. The error says what is wrong and what is allowed.
func (v value) as(t reflect.Type) (any, error) {
	if t.Kind() == reflect.String {
		return v.text, nil
	}
	if v.text == "" {
		return nil, errors.New("is empty, leave the key out or give it a value")
	}
	switch t {
	case reflect.TypeFor[bool]():
		return v.boolean()
	case reflect.TypeFor[int]():
		if v.quoted {
			return nil, fmt.Errorf("%s is text, write a number without quotes", quote(v.text))
		}
		return parseWhole(v.text)
	case reflect.TypeFor[time.Duration]():
		return parseDuration(v.text)
	case reflect.TypeFor[time.Time]():
		return parseTime(v.text)
	case reflect.TypeFor[Rate]():
		return ParseRate(v.text)
	case reflect.TypeFor[url.URL]():
		return parseUpstream(v.text)
	case reflect.TypeFor[netip.Prefix]():
		return parsePrefix(v.text)
	}
	return nil, fmt.Errorf("cannot be read as %s", t)
}

func (v value) boolean() (bool, error) {
	switch {
	case v.quoted:
		return false, fmt.Errorf("%s is text, write true or false without quotes", quote(v.text))
	case v.text == "true":
		return true, nil
	case v.text == "false":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", quote(v.text))
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case text != "0" && digits(text):
		return 0, fmt.Errorf("%s has no unit, write %ss or %sm", quote(text), text, text)
	case err != nil:
		return 0, fmt.Errorf("%s is not a duration, write one like 30s, 10m or 1h30m", quote(text))
	}
	return d, nil
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil && t.Year() >= 2000 && t.Year() < 2100 {
		return t, nil
	}
	const form = "write one like 2026-12-10T10:00:00+07:00"
	if err == nil {
		return time.Time{}, fmt.Errorf("%s is not in this century, %s", quote(text), form)
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", time.DateOnly} {
		if _, err := time.Parse(layout, text); err == nil {
			return time.Time{}, fmt.Errorf("%s has no time zone or no time, %s", quote(text), form)
		}
	}
	return time.Time{}, fmt.Errorf("%s is not a time, %s", quote(text), form)
}

// parsePrefix reads a prefix, or an address as the prefix that holds it alone.
func parsePrefix(text string) (netip.Prefix, error) {
	const form = "write one like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7"
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil, p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%s is neither a network nor an address, %s", quote(text), form)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%s has bits set beyond its length, write %s", quote(text), p.Masked())
	}
	return p, nil
}

// parseUpstream reads the address of a site. No message shows more of it than a word without a scheme, since it may
// hold a password.
func parseUpstream(text string) (url.URL, error) {
	const form = "write one like http://127.0.0.1:9000, or booking"
	if text == bookingWord {
		return bookingCore, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return url.URL{}, fmt.Errorf("is not an address, %s", form)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return url.URL{}, fmt.Errorf("has a scheme that is neither http nor https, %s", form)
	case u.User != nil:
		return url.URL{}, fmt.Errorf("holds a user name, which no request would carry, %s", form)
	case u.Opaque != "" || !validAuthority(u):
		return url.URL{}, fmt.Errorf("names no host, or one with a bad name or port, %s", form)
	case u.Path != "" && u.Path != "/":
		return url.URL{}, fmt.Errorf("has a path, but the upstream gets the path the visitor sent, %s", form)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return url.URL{}, fmt.Errorf("has a query or a fragment, %s", form)
	}
	return url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}, nil
}
