package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/payment"
	"ropeline/booking/payment/webhook"
)

const (
	defaultTimeout = 10 * time.Second
	mostAnswer     = 1 << 20 // bytes of an answer
)

// Config says where the sandbox is.
type Config struct {
	URL     string       // of the server, http or https
	Secrets []string     // of callbacks, the server's own first; see [webhook.New]
	Client  *http.Client // default: one that gives up after 10 s
}

// Provider is the sandbox as the booking core uses it. It is safe for concurrent use.
type Provider struct {
	base   string
	bearer string
	keys   *webhook.Keys
	client *http.Client
}

var _ payment.Provider = (*Provider)(nil)

// New makes the provider; the server need not be there yet.
func New(cfg Config) (*Provider, error) {
	if _, ok := absolute(cfg.URL); !ok {
		return nil, fmt.Errorf("sandbox: URL %q is not an absolute http or https URL", cfg.URL)
	}
	keys, err := webhook.New(cfg.Secrets...)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	p := &Provider{base: strings.TrimSuffix(cfg.URL, "/"), bearer: bearer(strings.TrimSpace(cfg.Secrets[0])), keys: keys, client: cfg.Client}
	if p.client == nil {
		p.client = &http.Client{Timeout: defaultTimeout}
	}
	return p, nil
}

// Name is "sandbox".
func (p *Provider) Name() string { return "sandbox" }

// Start opens a page.
func (p *Provider) Start(ctx context.Context, o payment.Order) (payment.Page, error) {
	var a account
	err := p.call(ctx, http.MethodPost, "/v1/payments", order(o), &a)
	if err != nil {
		return payment.Page{}, fmt.Errorf("sandbox: start payment %s: %w", o.PaymentID, err)
	}
	return payment.Page{Ref: a.Ref, URL: a.URL}, nil
}

// Close ends a page.
func (p *Provider) Close(ctx context.Context, ref payment.Ref) error {
	if err := p.call(ctx, http.MethodPost, "/v1/payments/"+ref.PaymentID.String()+"/close", nil, nil); err != nil {
		return fmt.Errorf("sandbox: close payment %s: %w", ref.PaymentID, err)
	}
	return nil
}

// Look asks what became of a payment.
func (p *Provider) Look(ctx context.Context, ref payment.Ref) (payment.Event, error) {
	var a account
	if err := p.call(ctx, http.MethodGet, "/v1/payments/"+ref.PaymentID.String(), nil, &a); err != nil {
		return payment.Event{}, fmt.Errorf("sandbox: look at payment %s: %w", ref.PaymentID, err)
	}
	kind := map[string]payment.Kind{open: payment.Pending, paid: payment.Paid, declined: payment.Declined, closed: payment.Expired}[a.Status]
	if kind == "" {
		return payment.Event{}, fmt.Errorf("sandbox: look at payment %s: status %q", ref.PaymentID, a.Status)
	}
	return payment.Event{
		ID: payment.LookID(ref.PaymentID, kind), Kind: kind, PaymentID: ref.PaymentID,
		Amount: a.Captured, Currency: a.CapturedCurrency, Charge: a.Charge, At: a.At,
	}, nil
}

// Refund gives money back.
func (p *Provider) Refund(ctx context.Context, r payment.Refund) (payment.RefundState, error) {
	sent := Refund{ID: r.ID, PaymentID: r.PaymentID, Amount: r.Amount, Currency: r.Currency}
	var got Refund
	if err := p.call(ctx, http.MethodPost, "/v1/refunds", sent, &got); err != nil {
		return payment.RefundState{}, fmt.Errorf("sandbox: refund %s of payment %s: %w", r.ID, r.PaymentID, err)
	}
	if got.Status == refundTried {
		return payment.RefundState{}, fmt.Errorf("sandbox: %w", payment.NewPermanent(fmt.Errorf("refund %s failed", r.ID)))
	}
	return payment.RefundState{Ref: got.Ref, Done: got.Status == done}, nil
}

// Read takes a callback.
func (p *Provider) Read(header http.Header, body []byte) (payment.Event, error) {
	id, err := p.keys.Verify(header, body)
	if err != nil {
		return payment.Event{}, fmt.Errorf("sandbox: %w: %w", payment.ErrNotGenuine, err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return payment.Event{}, fmt.Errorf("sandbox: %w: event %s is not of the sandbox", payment.ErrNotGenuine, id)
	}
	e := payment.Event{
		ID: id, Kind: kinds[m.Type], PaymentID: m.Data.PaymentID, Amount: m.Data.Amount, Currency: m.Data.Currency,
		Charge: m.Data.Charge, RefundID: m.Data.RefundID, At: m.At,
	}
	noMoney := e.Kind == payment.Paid && (e.Amount <= 0 || e.Currency == "")
	if e.Kind == "" || e.PaymentID == uuid.Nil || noMoney {
		e.Kind = payment.Ignored
	}
	return e, nil
}

var kinds = map[string]payment.Kind{
	typePaid: payment.Paid, typeDeclined: payment.Declined, typeExpired: payment.Expired,
	typeRefunded: payment.Refunded, typeRefundFailed: payment.RefundFailed,
}

// call sends in, if there is one, and reads the answer into out.
func (p *Provider) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return payment.NewPermanent(err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return payment.NewPermanent(err)
	}
	req.Header.Set("Authorization", p.bearer)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return refusal(resp.StatusCode, strings.TrimSpace(string(raw)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// refusal is the error of an answer that is none of success.
func refusal(status int, words string) error {
	if len(words) > 200 {
		words = words[:200]
	}
	switch status {
	case http.StatusNotFound:
		return payment.ErrUnknown
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
		return payment.NewPermanent(errors.New(words))
	}
	return fmt.Errorf("status %d: %s", status, words)
}

// absolute parses an absolute http or https URL.
func absolute(raw string) (*url.URL, bool) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, false
	}
	return u, true
}
