package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	api "github.com/stripe/stripe-go/v84"

	"ropeline/booking/payment"
)

// fault turns an error of the library into one of ours: [payment.ErrUnknown] for what Stripe doesn't have, a permanent one
// for what it will refuse again, otherwise one that may pass. A key that Stripe refuses may pass: it can be exchanged while
// payments and refunds wait.
func (p *Provider) fault(err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return errors.New(p.redact(err.Error()))
	}
	told := errors.New(p.words(refused))
	switch {
	case refused.Code == api.ErrorCodeResourceMissing, refused.HTTPStatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", payment.ErrUnknown, told)
	case refused.Code == api.ErrorCodeIdempotencyKeyInUse, refused.Code == api.ErrorCodeLockTimeout:
		return told
	case refused.HTTPStatusCode == http.StatusBadRequest, refused.HTTPStatusCode == http.StatusPaymentRequired:
		return payment.NewPermanent(told)
	}
	return told
}

// words are what a refusal says, for a log. The library's own text holds whole objects, with secrets of their own.
func (p *Provider) words(e *api.Error) string {
	parts := []string{fmt.Sprintf("status %d", e.HTTPStatusCode)}
	for _, part := range []string{string(e.Type), string(e.Code), string(e.DeclineCode), e.Msg, e.RequestID} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return p.redact(strings.Join(parts, ", "))
}

func (p *Provider) redact(text string) string {
	return strings.ReplaceAll(text, p.cfg.Key, masked(p.cfg.Key))
}

// masked is a key's prefix, such as sk_test_, for an error.
func masked(key string) string {
	for _, prefix := range []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_", "whsec_", "sk_", "rk_"} {
		if strings.HasPrefix(key, prefix) {
			return prefix + "..."
		}
	}
	return `"..."`
}
