package stripe

import (
	"fmt"
	"strings"

	"ropeline/booking/payment"
)

// Stripe counts some currencies in other units than ISO 4217 does, and leaves the last of three decimals 0:
// https://docs.stripe.com/currencies#special-cases
var stripeDecimals = map[string]int{"ISK": 2, "UGX": 2, "MGA": 0}

// shift is by how many decimal places Stripe's amounts are longer than ours.
func shift(currency string) int {
	places, special := stripeDecimals[currency]
	if !special {
		return 0
	}
	return places - payment.Decimals(currency)
}

// toStripe turns minor units into Stripe's. What Stripe can't take to the last digit is an error.
func toStripe(amount int64, currency string) (int64, error) {
	if amount <= 0 {
		return 0, fmt.Errorf("amount %d is not above 0", amount)
	}
	if len(currency) != 3 || currency != strings.ToUpper(currency) {
		return 0, fmt.Errorf("currency %q is not one of ISO 4217 in capital letters", currency)
	}
	if payment.Decimals(currency) == 3 && amount%10 != 0 {
		return 0, fmt.Errorf("amount %d %s: Stripe takes no third decimal", amount, currency)
	}
	for n := shift(currency); n != 0; {
		if n > 0 {
			amount, n = amount*10, n-1
			continue
		}
		if amount%10 != 0 {
			return 0, fmt.Errorf("amount %d %s: Stripe takes no decimals", amount, currency)
		}
		amount, n = amount/10, n+1
	}
	return amount, nil
}

// fromStripe turns Stripe's amount into minor units, and its currency into capital letters. A part of a minor unit, which
// Stripe refuses for such currencies, would be lost.
func fromStripe(amount int64, currency string) (int64, string) {
	currency = strings.ToUpper(currency)
	for n := shift(currency); n != 0; {
		if n > 0 {
			amount, n = amount/10, n-1
		} else {
			amount, n = amount*10, n+1
		}
	}
	return amount, currency
}
