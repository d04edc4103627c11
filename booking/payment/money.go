package payment

import (
	"strconv"
	"strings"
)

// decimals of the currencies of ISO 4217 that don't have two.
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0,
	"RWF": 0, "UGX": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
}

// Decimals is how many decimal places the minor unit of a currency is, by ISO 4217: 0 for VND, 2 for EUR and for any that
// is not known.
func Decimals(currency string) int {
	if n, ok := decimals[strings.ToUpper(currency)]; ok {
		return n
	}
	return 2
}

// Format writes an amount in minor units as people read it, for example "350,000 VND" in English and "350.000 VND" in
// Vietnamese. Any other language reads as English.
func Format(amount int64, currency, language string) string {
	group, point := ",", "."
	if Vietnamese(language) {
		group, point = ".", ","
	}
	digits, sign := strconv.FormatInt(amount, 10), ""
	if digits[0] == '-' {
		digits, sign = digits[1:], "-"
	}
	places := Decimals(currency)
	if short := places + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	whole, part := digits[:len(digits)-places], digits[len(digits)-places:]
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + group + whole[i:]
	}
	if part != "" {
		whole += point + part
	}
	return sign + whole + " " + currency
}

// Vietnamese tells whether a BCP 47 tag is of Vietnamese.
func Vietnamese(language string) bool {
	base, _, _ := strings.Cut(strings.ReplaceAll(language, "_", "-"), "-")
	return strings.EqualFold(base, "vi")
}
