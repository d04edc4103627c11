// Package stripe takes money by Stripe's hosted payment page, Checkout.
//
// A payment is a Checkout Session that bears our payment id, in client_reference_id and in the metadata of the session and
// of its payment intent. Stripe closes no session before 30 minutes, so the session is given longer than the order and
// [Provider.Close] expires it. The charge that we remember is the payment intent (pi_...).
//
// The endpoint of the webhooks is to be sent: checkout.session.completed, checkout.session.async_payment_succeeded,
// checkout.session.async_payment_failed, checkout.session.expired, refund.updated, refund.failed, charge.refunded.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"ropeline/booking/payment"
)

const (
	// sessionAfterPayBy is how much longer than its order a session lives. Stripe wants at least 30 minutes from now, and
	// a repeated call must ask for the same instant, so it hangs on PayBy and not on the clock.
	sessionAfterPayBy = 35 * time.Minute

	defaultTimeout = 20 * time.Second
	retries        = 1   // inside one call; who calls repeats it anyway
	mostTitle      = 200 // characters of a product's name
)

// Config is an account at Stripe.
type Config struct {
	Key            string   // secret (sk_) or restricted (rk_) key. Required
	WebhookSecrets []string // whsec_..., as Stripe shows them; several while one is being exchanged. Required
	ReturnURL      string   // where customers go whose order names nothing: Stripe wants some address
	Methods        []string // payment methods; default "card", which brings wallets too. Others may take days to tell

	URL    string       // of Stripe's API; default: Stripe's
	Client *http.Client // default: one that gives up after 20 s
}

// Provider is an account at Stripe. It is safe for concurrent use, and prints of its key only the prefix.
type Provider struct {
	cfg    Config
	client *api.Client
}

var _ payment.Provider = (*Provider)(nil)

// New checks cfg without calling Stripe.
func New(cfg Config) (*Provider, error) {
	cfg.Key = strings.TrimSpace(cfg.Key)
	if !strings.HasPrefix(cfg.Key, "sk_") && !strings.HasPrefix(cfg.Key, "rk_") {
		return nil, fmt.Errorf("stripe: key %s is neither a secret (sk_) nor a restricted (rk_) one", masked(cfg.Key))
	}
	if len(cfg.WebhookSecrets) == 0 {
		return nil, errors.New("stripe: no webhook secret")
	}
	secrets := make([]string, len(cfg.WebhookSecrets))
	for i, secret := range cfg.WebhookSecrets {
		secrets[i] = strings.TrimSpace(secret)
		if raw, ok := strings.CutPrefix(secrets[i], "whsec_"); !ok || raw == "" {
			return nil, fmt.Errorf("stripe: webhook secret %d does not begin with whsec_", i+1)
		}
	}
	cfg.WebhookSecrets = secrets
	if len(cfg.Methods) == 0 {
		cfg.Methods = []string{"card"}
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: defaultTimeout}
	}
	backend := &api.BackendConfig{
		HTTPClient: cfg.Client, MaxNetworkRetries: api.Int64(retries), EnableTelemetry: api.Bool(false),
		LeveledLogger: &api.LeveledLogger{Level: api.LevelNull},
	}
	if cfg.URL != "" {
		backend.URL = api.String(cfg.URL)
	}
	return &Provider{cfg: cfg, client: api.NewClient(cfg.Key, api.WithBackends(api.NewBackendsWithConfig(backend)))}, nil
}

// Name is "stripe".
func (p *Provider) Name() string { return "stripe" }

// Live tells whether the key moves real money.
func (p *Provider) Live() bool { return strings.Contains(p.cfg.Key, "_live_") }

// Start makes a Checkout Session. Stripe remembers the key of a call for a day.
func (p *Provider) Start(ctx context.Context, o payment.Order) (payment.Page, error) {
	params, err := p.session(o)
	if err != nil {
		return payment.Page{}, fmt.Errorf("stripe: start payment %s: %w", o.PaymentID, payment.NewPermanent(err))
	}
	session, err := p.client.V1CheckoutSessions.Create(ctx, params)
	if err != nil {
		return payment.Page{}, fmt.Errorf("stripe: start payment %s: %w", o.PaymentID, p.fault(err))
	}
	return payment.Page{Ref: session.ID, URL: session.URL}, nil
}

func (p *Provider) session(o payment.Order) (*api.CheckoutSessionCreateParams, error) {
	amount, err := toStripe(o.Amount, o.Currency)
	if err != nil {
		return nil, err
	}
	back := o.ReturnURL
	if back == "" {
		back = p.cfg.ReturnURL
	}
	if back == "" {
		return nil, errors.New("no return URL, neither of the order nor of the configuration")
	}
	id := o.PaymentID.String()
	ours := map[string]string{"payment_id": id, "booking_id": o.BookingID.String()}
	params := &api.CheckoutSessionCreateParams{
		Mode:               api.String(string(api.CheckoutSessionModePayment)),
		ClientReferenceID:  api.String(id),
		Metadata:           ours,
		PaymentIntentData:  &api.CheckoutSessionCreatePaymentIntentDataParams{Metadata: ours},
		ExpiresAt:          api.Int64(o.PayBy.Add(sessionAfterPayBy).Unix()),
		SuccessURL:         api.String(back),
		CancelURL:          api.String(back),
		Locale:             api.String(locale(o.Language)),
		PaymentMethodTypes: api.StringSlice(p.cfg.Methods),
		// What is paid must be what was asked for, in the currency of the sale.
		AdaptivePricing: &api.CheckoutSessionCreateAdaptivePricingParams{Enabled: api.Bool(false)},
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{
			Quantity: api.Int64(1),
			PriceData: &api.CheckoutSessionCreateLineItemPriceDataParams{
				Currency:    api.String(strings.ToLower(o.Currency)),
				UnitAmount:  api.Int64(amount),
				ProductData: &api.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: api.String(title(o))},
			},
		}},
	}
	params.SetIdempotencyKey(id)
	return params, nil
}

// title is what the page calls the order: Stripe refuses an empty name.
func title(o payment.Order) string {
	t := []rune(strings.TrimSpace(o.Title))
	if len(t) == 0 {
		return o.BookingID.String()
	}
	return string(t[:min(len(t), mostTitle)])
}

// locales are the languages that Checkout speaks, of those without regions.
var locales = map[string]bool{
	"bg": true, "cs": true, "da": true, "de": true, "el": true, "en": true, "es": true, "et": true, "fi": true, "fil": true,
	"fr": true, "hr": true, "hu": true, "id": true, "it": true, "ja": true, "ko": true, "lt": true, "lv": true, "ms": true,
	"mt": true, "nb": true, "nl": true, "pl": true, "pt": true, "ro": true, "ru": true, "sk": true, "sl": true, "sv": true,
	"th": true, "tr": true, "vi": true, "zh": true,
}

// locale is Stripe's name for a language, or "auto", which is the browser's.
func locale(language string) string {
	base, _, _ := strings.Cut(strings.ToLower(language), "-")
	if locales[base] {
		return base
	}
	return "auto"
}

// Close expires the session. One that is complete or expired already is left as it is.
func (p *Provider) Close(ctx context.Context, ref payment.Ref) error {
	if ref.Page == "" {
		return fmt.Errorf("stripe: close payment %s: no session: %w", ref.PaymentID, payment.ErrUnknown)
	}
	_, err := p.client.V1CheckoutSessions.Expire(ctx, ref.Page, nil)
	if err == nil {
		return nil
	}
	var refused *api.Error
	if errors.As(err, &refused) && refused.HTTPStatusCode == http.StatusBadRequest {
		session, lookErr := p.client.V1CheckoutSessions.Retrieve(ctx, ref.Page, nil)
		switch {
		case lookErr != nil:
			return fmt.Errorf("stripe: close payment %s: %w", ref.PaymentID, p.fault(lookErr))
		case session.Status != api.CheckoutSessionStatusOpen:
			return nil
		}
		return fmt.Errorf("stripe: close payment %s: still open: %s", ref.PaymentID, p.words(refused)) // a payment under way: later
	}
	return fmt.Errorf("stripe: close payment %s: %w", ref.PaymentID, p.fault(err))
}
