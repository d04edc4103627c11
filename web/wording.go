package web

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// The same wording is in queue/wording.js for the page with a script; testdata/wording.json holds both to it.

// peopleText says how many people are ahead: exactly up to 100, with two significant digits and an "about"
// above, where the position is an estimate.
func peopleText(ahead int64, lang string) string {
	w := words[lang].Page
	if ahead > 100 {
		return fill(w["about"], "n", number(float64(roundTwo(ahead)), lang))
	}
	return number(float64(ahead), lang)
}

// waitText says a range of waiting time so that it promises too little rather than too much: the low end is
// rounded down, the high end up.
func waitText(low, high time.Duration, lang string) string {
	w := words[lang].Page
	minutes := func(n float64) string { return countText(w, "minutes", n, lang) }
	hours := func(n float64) string { return countText(w, "hours", n, lang) }
	if high < time.Minute {
		return w["underMinute"]
	}
	lo, hi := math.Floor(low.Minutes()), math.Ceil(high.Minutes())
	if hi <= 90 {
		return rangeText(w, lo, hi, minutes, lang)
	}
	loHalves, hiHalves := math.Floor(low.Minutes()/30)/2, math.Ceil(high.Minutes()/30)/2
	switch {
	case loHalves >= 24 && hiHalves > 24:
		return w["overDay"]
	case hiHalves > 24:
		return fill(w["over"], "n", hours(math.Max(1, math.Floor(loHalves))))
	case loHalves >= 1 || lo < 1:
		return rangeText(w, loHalves, hiHalves, hours, lang)
	default:
		return fill(fill(w["between"], "low", minutes(lo)), "high", hours(hiHalves))
	}
}

func rangeText(w map[string]string, lo, hi float64, unit func(float64) string, lang string) string {
	switch {
	case lo <= 0:
		return fill(w["upTo"], "n", unit(hi))
	case lo >= hi:
		return fill(w["about"], "n", unit(hi))
	default:
		return number(lo, lang) + "–" + unit(hi)
	}
}

// countText is a number with its noun, in the singular for 1 where the language has one (key + "One").
func countText(w map[string]string, key string, n float64, lang string) string {
	noun := w[key]
	if n == 1 {
		noun = w[key+"One"]
	}
	return fill(noun, "n", number(n, lang))
}

// roundTwo keeps the two leading digits: 12,345 is 12,000.
func roundTwo(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// number writes a non-negative number with at most one decimal, grouped as the language does.
func number(n float64, lang string) string {
	group, point := ",", "."
	if lang == "vi" {
		group, point = ".", ","
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(n, 'f', 1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + group + whole[i:]
	}
	if fraction == "0" {
		return whole
	}
	return whole + point + fraction
}

// fill puts value where text has {name}.
func fill(text, name, value string) string {
	return strings.ReplaceAll(text, "{"+name+"}", value)
}
