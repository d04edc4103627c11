//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/payment/sandbox"
	"ropeline/booking/payment/webhook"
	"ropeline/internal/pgbox"
)

// heard is what a callback is answered with.
type heard struct {
	status  int
	text    string
	Outcome string `json:"outcome"`
	Code    string `json:"code"`
}

func paidBody(id uuid.UUID, amount int64, currency string) string {
	return callbackBody("payment.paid", fmt.Sprintf(`"paymentId":%q,"amount":%d,"currency":%q,"charge":"c-1"`, id, amount, currency))
}

func callbackBody(kind, data string) string {
	return fmt.Sprintf(`{"type":%q,"at":%q,"data":{%s}}`, kind, time.Now().UTC().Format(time.RFC3339), data)
}

// callback posts a body as the provider does, signed for a time.
func (s *stand) callback(listen, id string, at time.Time, body string) heard {
	s.t.Helper()
	return s.post(listen, s.signed(s.signer, id, at, body), body)
}

func (s *stand) signed(by *webhook.Keys, id string, at time.Time, body string) http.Header {
	s.t.Helper()
	h := http.Header{"Content-Type": {"application/json"}}
	if err := by.Sign(h, id, at, []byte(body)); err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *stand) post(listen string, h http.Header, body string) heard {
	s.t.Helper()
	got, err := s.tryPost(listen, h, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

func (s *stand) tryPost(listen string, h http.Header, body string) (heard, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+listen+"/v1/payments/callback/sandbox", strings.NewReader(body))
	if err != nil {
		return heard{}, err
	}
	req.Header = maps.Clone(h)
	c := http.Client{Timeout: longest}
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err != nil {
		return heard{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	got := heard{status: res.StatusCode, text: string(data)}
	_ = json.Unmarshal(data, &got)
	return got, err
}

// purchase is a hold with a payment page that is paid at the bank, which says nothing of it.
type purchase struct {
	c       *counter
	hold    string
	payment uuid.UUID
}

func (s *stand) purchase(listen, seat string, how sandbox.How) purchase {
	s.t.Helper()
	p := purchase{c: &counter{t: s.t, c: newClient(s.t), base: listen}}
	p.hold = p.c.want(http.StatusCreated, http.MethodPost, fmt.Sprintf("/v1/events/%d/holds", openEvent), fmt.Sprintf(`{"seats":[%q]}`, seat)).HoldID
	page := p.c.want(http.StatusCreated, http.MethodPost, "/v1/holds/"+p.hold+"/checkout", `{}`, "Idempotency-Key", "k").CheckoutURL
	p.payment = parseID(page[strings.LastIndexByte(page, '/')+1:])
	if how != "" {
		if _, err := s.bank.Pay(p.payment, how, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	return p
}

func TestSale_BelievesOnlyGenuineCallbacks(t *testing.T) {
	t.Parallel()
	const price = 90_000
	s := newStand(t, pgbox.Config{Fast: true}, "A..B", 20)
	here := s.newSpot("serve")
	s.openBank(here.listen)
	s.start(here)
	stranger, err := webhook.New(webhook.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	forged := s.purchase(here.listen, "A1", "")
	other := s.purchase(here.listen, "A2", "")
	body := paidBody(forged.payment, price, "VND")
	good := s.signed(s.signer, "msg_forged", now, body)
	without := func(name string) http.Header {
		h := good.Clone()
		h.Del(name)
		return h
	}
	deep := `{"type":"payment.paid","data":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	for name, c := range map[string]struct {
		header http.Header
		body   string
		status int
		code   string
	}{
		"another's signature": {s.signed(stranger, "msg_forged", now, body), body, 401, "unauthorized"},
		"another body":        {good, paidBody(other.payment, price, "VND"), 401, "unauthorized"},
		"one byte more":       {good, body + " ", 401, "unauthorized"},
		"another id":          {with(good, "webhook-id", "msg_other"), body, 401, "unauthorized"},
		"no id":               {without("webhook-id"), body, 401, "unauthorized"},
		"no time":             {without("webhook-timestamp"), body, 401, "unauthorized"},
		"no signature":        {without("webhook-signature"), body, 401, "unauthorized"},
		"nothing at all":      {http.Header{}, "", 401, "unauthorized"},
		"six minutes old":     {s.signed(s.signer, "msg_old", now.Add(-6*time.Minute), body), body, 401, "unauthorized"},
		"six minutes early":   {s.signed(s.signer, "msg_early", now.Add(6*time.Minute), body), body, 401, "unauthorized"},
		"a time moved up":     {with(s.signed(s.signer, "msg_old", now.Add(-6*time.Minute), body), "webhook-timestamp", fmt.Sprint(now.Unix())), body, 401, "unauthorized"},
		"a time that is none": {with(good, "webhook-timestamp", "soon"), body, 401, "unauthorized"},
		"deep, and signed":    {s.signed(s.signer, "msg_deep", now, deep), deep, 400, "bad-request"},
	} {
		if got := s.post(here.listen, c.header, c.body); got.status != c.status || got.Code != c.code {
			t.Errorf("%s: %d %s %.200s, want %d %s", name, got.status, got.Code, got.text, c.status, c.code)
		}
	}
	unknown := paidBody(uuid.New(), price, "VND")
	for range 2 { // it stays unknown: nothing was noted
		if got := s.callback(here.listen, "msg_unknown", now, unknown); got.status != http.StatusNotFound || got.Code != "unknown-payment" {
			t.Errorf("a payment that nobody knows: %d %s, want 404 unknown-payment", got.status, got.text)
		}
	}
	huge := `{"type":"` + strings.Repeat("x", 10<<20) + `"}`
	if got, err := s.tryPost(here.listen, s.signed(s.signer, "msg_huge", now, huge), huge); err == nil && (got.status != http.StatusRequestEntityTooLarge || got.Code != "too-large") {
		t.Errorf("10 MiB: %d %s, want 413 too-large", got.status, got.text)
	} else if err != nil { // the connection was closed while the body was on its way
		t.Logf("10 MiB: %v", err)
	}
	for _, ignored := range []string{`{}`, `{"type":"x"}`, callbackBody("refund.done", fmt.Sprintf(`"paymentId":%q,"refundId":%q`, forged.payment, uuid.New())), callbackBody("payment.paid", `"paymentId":"none"`)} {
		got := s.callback(here.listen, "msg_ignored_"+uuid.NewString(), now, ignored)
		if got.status != http.StatusOK && got.status != http.StatusUnauthorized || got.status == http.StatusOK && got.Outcome != "ignored" {
			t.Errorf("%s: %d %s, want it ignored", ignored, got.status, got.text)
		}
	}
	if n := query[int64](s, `SELECT count(*) FROM bk.inbox`)[0]; n != 0 {
		t.Errorf("%d callbacks had an effect", n)
	}
	for _, p := range []purchase{forged, other} {
		if a := p.c.want(http.StatusOK, http.MethodGet, "/orders/"+p.hold, ""); a.Status != "PENDING" {
			t.Errorf("an order that nobody has paid: %s", a.text)
		}
	}
}

func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

func TestSale_ACallbackCountsOnce(t *testing.T) {
	t.Parallel()
	const price, copies = 90_000, 50
	s := newStand(t, pgbox.Config{Fast: true}, "A..B", 20)
	here := s.newSpot("serve")
	s.openBank(here.listen)
	s.start(here)
	expect := func(what string, got heard, outcome string) {
		t.Helper()
		if got.status != http.StatusOK || got.Outcome != outcome {
			t.Errorf("%s: %d %s, want %s", what, got.status, got.text, outcome)
		}
	}

	doubled := s.purchase(here.listen, "A1", sandbox.Never)
	body := paidBody(doubled.payment, price, "VND")
	var mu sync.Mutex
	var all sync.WaitGroup
	outcomes := map[string]int{}
	for i := range copies {
		all.Go(func() { // half are the same message again, half are new ones about the same money
			got, err := s.tryPost(here.listen, s.signed(s.signer, fmt.Sprintf("msg_doubled_%d", i%2*i), time.Now(), body), body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got.status != http.StatusOK {
				t.Errorf("a doubled callback: %d %s %v", got.status, got.text, err)
			}
			outcomes[got.Outcome]++
		})
	}
	all.Wait()
	t.Logf("%d copies at once: %v", copies, outcomes)
	if outcomes["confirmed"] != 1 || outcomes["duplicate"] != copies-1 {
		t.Errorf("outcomes %v, want one confirmed and duplicates", outcomes)
	}
	other := s.purchase(here.listen, "A2", "")
	expect("the same id about another payment", s.callback(here.listen, "msg_doubled_0", time.Now(), paidBody(other.payment, price, "VND")), "duplicate")
	other.c.becomes(other.hold, "PENDING")
	expect("another amount later", s.callback(here.listen, "msg_amount", time.Now(), paidBody(doubled.payment, price/2, "VND")), "duplicate")
	expect("declined after it was paid", s.callback(here.listen, "msg_reordered", time.Now(), callbackBody("payment.declined", fmt.Sprintf(`"paymentId":%q`, doubled.payment))), "duplicate")
	doubled.c.becomes(doubled.hold, "PAID")

	reordered := s.purchase(here.listen, "A3", sandbox.Never)
	expect("declined first", s.callback(here.listen, "msg_declined", time.Now(), callbackBody("payment.declined", fmt.Sprintf(`"paymentId":%q`, reordered.payment))), "declined")
	expect("then paid", s.callback(here.listen, "msg_paid", time.Now(), paidBody(reordered.payment, price, "VND")), "confirmed")
	reordered.c.becomes(reordered.hold, "PAID")

	late := s.purchase(here.listen, "A4", sandbox.Never)
	if err := s.pass(t.Context(), parseID(late.hold)); err != nil {
		t.Fatal(err)
	}
	s.swept()
	winner := s.purchase(here.listen, "A4", sandbox.OK) // free again, and sold to somebody else
	winner.c.becomes(winner.hold, "PAID")
	got := s.callback(here.listen, "msg_late", time.Now(), paidBody(late.payment, price, "VND"))
	if got.status != http.StatusOK || got.Outcome != "late_refund" && got.Outcome != "duplicate" { // a worker may have asked first
		t.Errorf("late money: %d %s, want it refunded", got.status, got.text)
	}
	expect("late money again", s.callback(here.listen, "msg_late", time.Now(), paidBody(late.payment, price, "VND")), "duplicate")
	winner.c.becomes(winner.hold, "PAID")

	for seat, how := range map[string]sandbox.How{"A5": sandbox.WrongCurrency, "A6": sandbox.WrongAmount} {
		p := s.purchase(here.listen, seat, how)
		eventually(t, string(how)+" went back", func() bool { return p.c.do(http.MethodGet, "/orders/"+p.hold, "").Refund.Status == "DONE" })
	}
	s.settle()
	s.checkMoney(s.bank.Payments())
	s.audited()
	if n := query[int64](s, `SELECT count(*) FROM bk.ticket`)[0]; n != 3 {
		t.Errorf("%d tickets, want one each for A1, A3 and A4", n)
	}
}
