package payment

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
)

func TestLookID_IsTheSameForTheSameAnswer(t *testing.T) {
	one, two := uuid.New(), uuid.New()
	if first, second := LookID(one, Paid), LookID(one, Paid); first != second {
		t.Errorf("two answers of one kind have two ids, %s and %s", first, second)
	}
	if LookID(one, Paid) == LookID(one, Expired) || LookID(one, Paid) == LookID(two, Paid) {
		t.Error("different answers share an id")
	}
}

func TestPermanent_IsFoundThroughWrapsAndKeepsItsCause(t *testing.T) {
	err := fmt.Errorf("refund: %w", NewPermanent(fmt.Errorf("page: %w", ErrUnknown)))
	var permanent Permanent
	if !errors.As(err, &permanent) {
		t.Errorf("%v is not permanent", err)
	}
	if !errors.Is(err, ErrUnknown) {
		t.Errorf("%v lost its cause", err)
	}
	if errors.As(fmt.Errorf("refund: %w", ErrUnknown), &permanent) {
		t.Error("an ordinary error is permanent")
	}
}

func TestFormat_WritesAmountsAsPeopleReadThem(t *testing.T) {
	for _, c := range []struct {
		amount             int64
		currency, language string
		want               string
	}{
		{350000, "VND", "en", "350,000 VND"},
		{350000, "VND", "vi-VN", "350.000 VND"},
		{1234567, "EUR", "", "12,345.67 EUR"},
		{1234567, "EUR", "vi", "12.345,67 EUR"},
		{5, "USD", "en", "0.05 USD"},
		{-1050, "USD", "en", "-10.50 USD"},
		{1500, "KWD", "en", "1.500 KWD"},
		{0, "JPY", "en", "0 JPY"},
		{100, "JPY", "en", "100 JPY"},
	} {
		if got := Format(c.amount, c.currency, c.language); got != c.want {
			t.Errorf("Format(%d, %s, %q) = %q, want %q", c.amount, c.currency, c.language, got, c.want)
		}
	}
}
