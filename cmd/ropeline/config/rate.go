package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rate is a number of visitors or requests per second. Its text is a decimal number, a slash and a unit (s, min or
// h), as in 100/s, 6/min or 1.5/s, or a bare 0.
type Rate float64

const (
	maxRate Rate = 1_000_000
	minRate Rate = 1.0 / 86400 // above 0; one a day
)

var rateUnits = []struct {
	name    string
	seconds float64
}{{"s", 1}, {"min", 60}, {"h", 3600}}

// ParseRate reads the text of a Rate. The error says what is wrong with it and what is allowed.
func ParseRate(text string) (Rate, error) {
	number, unit, hasUnit := strings.Cut(text, "/")
	negative := strings.HasPrefix(number, "-")
	n, err := strconv.ParseFloat(strings.TrimPrefix(number, "-"), 64)
	if !plainDecimal(strings.TrimPrefix(number, "-")) || err != nil {
		return 0, fmt.Errorf("%s is not a rate, write 100/s, 6000/min or 0", quote(text))
	}
	seconds, known := unitSeconds(unit)
	switch {
	case negative && n != 0:
		return 0, fmt.Errorf("%s is negative, write 100/s, 6000/min or 0", quote(text))
	case hasUnit && !known:
		return 0, fmt.Errorf("%s has an unknown unit, write 100/s, 6000/min or 360000/h", quote(text))
	case n == 0:
		return 0, nil
	case !hasUnit:
		return 0, fmt.Errorf("%s has no unit, write %s/s or %s/min (0 is allowed)", quote(text), number, decimal(n*60))
	}
	r := Rate(n / seconds)
	if r > maxRate || r < minRate {
		return 0, fmt.Errorf("%s is out of range, allowed is 0 or from one a day (0.042/h) to 1000000/s", quote(text))
	}
	return r, nil
}

// String is the text of r in the largest number of whole units it has: 6/min, not 0.1/s.
func (r Rate) String() string {
	if r == 0 {
		return "0"
	}
	for _, u := range rateUnits {
		n := float64(r) * u.seconds
		if whole := math.Round(n); whole > 0 && math.Abs(n-whole) < 1e-9*whole {
			return decimal(whole) + "/" + u.name
		}
	}
	return decimal(float64(r)) + "/s"
}

// MarshalText writes what [Rate.UnmarshalText] reads.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what [ParseRate] reads, so a Rate can be a flag.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// plainDecimal reports whether s is digits with at most one point between them: no sign, exponent, hex, Inf or NaN.
func plainDecimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return digits(whole) && (!point || digits(fraction))
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func unitSeconds(name string) (float64, bool) {
	for _, u := range rateUnits {
		if u.name == name {
			return u.seconds, true
		}
	}
	return 0, false
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// parseWhole reads a whole number written in plain digits.
func parseWhole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large", quote(text))
	case err != nil, n != 0 && strings.HasPrefix(strings.TrimLeft(text, "+-"), "0"):
		return 0, fmt.Errorf("%s is not a whole number, write one like 5000", quote(text))
	}
	return n, nil
}
