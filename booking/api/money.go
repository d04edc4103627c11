package api

import (
	"strconv"
	"strings"

	"ropeline/booking"
)

// decimals of the currencies that don't have two of them (ISO 4217).
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0, "BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
}

// priceText writes an amount for a person: 300.000 VND where groups are parted by a dot, as in Vietnamese, else 12,500.00 EUR.
func priceText(m booking.Money, groups, point string) string {
	places, odd := decimals[m.Currency]
	if !odd {
		places = 2
	}
	digits := strconv.FormatInt(m.Amount, 10)
	digits, negative := strings.CutPrefix(digits, "-")
	if missing := places + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, rest := digits[:len(digits)-places], digits[len(digits)-places:]
	text := grouped(whole, groups)
	if negative {
		text = "-" + text
	}
	if rest != "" {
		text += point + rest
	}
	return text + " " + m.Currency
}

// grouped parts digits by threes.
func grouped(digits, by string) string {
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(by)
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}
