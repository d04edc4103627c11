package sandbox

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"ropeline/booking/payment"
	"ropeline/booking/payment/webhook"
)

func TestStart_TwiceGivesTheSamePage(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	first, second := s.started(t, o), s.started(t, o)
	if first != second || first.URL == "" || first.Ref == "" {
		t.Errorf("pages %+v and %+v", first, second)
	}
	o.Amount++
	_, err := s.provider.Start(t.Context(), o)
	if permanent := (payment.Permanent{}); !errors.As(err, &permanent) {
		t.Errorf("the same id with another amount: %v", err)
	}
	if got := len(s.Payments()); got != 1 {
		t.Errorf("%d payments, want 1", got)
	}
}

func TestStart_SurvivesALostAnswer(t *testing.T) {
	s := newStand(t)
	s.Behave(Behaviour{FailStarts: 1, LoseStarts: 1})
	o := anOrder()
	for range 2 {
		if _, err := s.provider.Start(t.Context(), o); err == nil || errors.As(err, new(payment.Permanent)) {
			t.Fatalf("Start = %v, want an error that may pass", err)
		}
	}
	s.started(t, o)
	if got := len(s.Payments()); got != 1 {
		t.Errorf("%d payments, want 1", got)
	}
}

func TestPay_TellsTheShopOnce(t *testing.T) {
	s := newStand(t)
	o := s.paid(t, OK)
	if took, err := s.Pay(o.PaymentID, OK, 0); took || err != nil {
		t.Errorf("paying twice = %v, %v", took, err)
	}
	got := s.events(t)
	if len(got) != 1 {
		t.Fatalf("%d callbacks, want 1: %+v", len(got), got)
	}
	e := got[0]
	if e.Kind != payment.Paid || e.PaymentID != o.PaymentID || e.Amount != o.Amount || e.Currency != o.Currency || e.Charge == "" || e.ID == "" {
		t.Errorf("event %+v", e)
	}
	looked := s.look(t, o)
	if looked.Kind != payment.Paid || looked.Amount != o.Amount || looked.ID != payment.LookID(o.PaymentID, payment.Paid) {
		t.Errorf("Look = %+v", looked)
	}
}

func TestPay_ByManyAtOnceTakesMoneyOnce(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	s.started(t, o)
	var racers sync.WaitGroup
	for range 50 {
		racers.Go(func() {
			if _, err := s.Pay(o.PaymentID, OK, 0); err != nil {
				t.Error(err)
			}
		})
	}
	racers.Wait()
	if got := s.events(t); len(got) != 1 || s.Payments()[0].Captured != o.Amount {
		t.Errorf("%d callbacks, captured %d", len(got), s.Payments()[0].Captured)
	}
}

func TestPay_GoesAsItIsTold(t *testing.T) {
	for how, want := range map[How][]payment.Kind{
		Late:          {payment.Paid},
		Twice:         {payment.Paid, payment.Paid},
		Never:         nil,
		WrongAmount:   {payment.Paid},
		WrongCurrency: {payment.Paid},
		Reordered:     {payment.Paid, payment.Declined},
	} {
		t.Run(string(how), func(t *testing.T) {
			s := newStand(t)
			o := s.paid(t, how)
			if how == Late {
				if e := s.look(t, o); e.Kind != payment.Paid {
					t.Errorf("Look before the callback = %s, want paid", e.Kind)
				}
			}
			got := s.events(t)
			if len(got) != len(want) {
				t.Fatalf("callbacks %+v, want %v", got, want)
			}
			for i, e := range got {
				if e.Kind != want[i] || e.PaymentID != o.PaymentID {
					t.Errorf("callback %d is %+v, want %s", i, e, want[i])
				}
			}
			e := s.look(t, o)
			switch how {
			case Twice:
				if got[0].ID != got[1].ID {
					t.Error("the same event has two ids")
				}
			case WrongAmount:
				if got[0].Amount == o.Amount || e.Amount != got[0].Amount {
					t.Errorf("amounts: asked %d, told %d, looked up %d", o.Amount, got[0].Amount, e.Amount)
				}
			case WrongCurrency:
				if got[0].Currency == o.Currency || e.Currency != got[0].Currency {
					t.Errorf("currencies: asked %s, told %s, looked up %s", o.Currency, got[0].Currency, e.Currency)
				}
			case Reordered:
				if got[0].At.Before(got[1].At) {
					t.Error("the attempt that was declined came after the one that was paid")
				}
			}
			if e.Kind != payment.Paid {
				t.Errorf("Look = %s, want paid", e.Kind)
			}
		})
	}
}

func TestPay_AfterItsTimeStillTakesTheMoneyUnlessClosed(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	o.PayBy = o.PayBy.Add(-24 * 3600e9)
	s.started(t, o)
	if took, err := s.Pay(o.PaymentID, OK, 0); !took || err != nil {
		t.Errorf("an open page after its time: %v, %v", took, err)
	}
	closed := anOrder()
	s.started(t, closed)
	if err := s.provider.Close(t.Context(), payment.Ref{PaymentID: closed.PaymentID}); err != nil {
		t.Fatal(err)
	}
	if took, err := s.Pay(closed.PaymentID, OK, 0); took || err == nil {
		t.Errorf("a closed page took money: %v, %v", took, err)
	}
	if e := s.look(t, closed); e.Kind != payment.Expired {
		t.Errorf("Look = %s, want expired", e.Kind)
	}
}

func TestClose_MayBeRepeatedAndLeavesAPaidPageAlone(t *testing.T) {
	s := newStand(t)
	ref := func(o payment.Order) payment.Ref { return payment.Ref{PaymentID: o.PaymentID} }
	unpaid := anOrder()
	s.started(t, unpaid)
	paid := s.paid(t, OK)
	for range 2 {
		for _, o := range []payment.Order{unpaid, paid} {
			if err := s.provider.Close(t.Context(), ref(o)); err != nil {
				t.Error(err)
			}
		}
	}
	if e := s.look(t, paid); e.Kind != payment.Paid {
		t.Errorf("Look = %s, want paid", e.Kind)
	}
	kinds := map[payment.Kind]int{}
	for _, e := range s.events(t) {
		kinds[e.Kind]++
	}
	if kinds[payment.Paid] != 1 || kinds[payment.Expired] != 1 || len(kinds) != 2 {
		t.Errorf("callbacks %v, want one paid and one expired", kinds)
	}
	if err := s.provider.Close(t.Context(), payment.Ref{PaymentID: uuid.New()}); !errors.Is(err, payment.ErrUnknown) {
		t.Errorf("closing no payment: %v", err)
	}
	if _, err := s.provider.Look(t.Context(), payment.Ref{PaymentID: uuid.New()}); !errors.Is(err, payment.ErrUnknown) {
		t.Errorf("looking at no payment: %v", err)
	}
}

func TestDecline_EndsThePage(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	s.started(t, o)
	for range 2 {
		if err := s.Decline(o.PaymentID, 0); err != nil {
			t.Fatal(err)
		}
	}
	if took, err := s.Pay(o.PaymentID, OK, 0); took || err == nil {
		t.Error("a declined page took money")
	}
	if got := s.events(t); len(got) != 1 || got[0].Kind != payment.Declined {
		t.Errorf("callbacks %+v", got)
	}
	if e := s.look(t, o); e.Kind != payment.Declined {
		t.Errorf("Look = %s", e.Kind)
	}
}

func TestCallback_IsSentUntilItIsTaken(t *testing.T) {
	s := newStand(t)
	s.mu.Lock()
	s.refuse = []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusFound, http.StatusUnauthorized}
	s.mu.Unlock()
	s.paid(t, OK)
	if got := s.events(t); len(got) != 1 || got[0].Kind != payment.Paid {
		t.Errorf("callbacks %+v", got)
	}
}

func TestCallback_IsGivenUpAfterItsTries(t *testing.T) {
	s := newStand(t, func(cfg *ServerConfig) { cfg.Tries = 3 })
	s.mu.Lock()
	s.refuse = []int{500, 500, 500}
	s.mu.Unlock()
	s.paid(t, OK)
	if got := s.events(t); len(got) != 0 {
		t.Errorf("a fourth try: %+v", got)
	}
}

func TestRead_RefusesWhatTheSandboxDidNotSend(t *testing.T) {
	s := newStand(t)
	s.paid(t, OK)
	s.events(t)
	header, body := s.heads[0], s.bodies[0]
	if _, err := s.provider.Read(header, body); err != nil {
		t.Fatal(err)
	}
	if _, err := s.provider.Read(header, append([]byte(" "), body...)); !errors.Is(err, payment.ErrNotGenuine) {
		t.Errorf("another body: %v", err)
	}
	if _, err := s.provider.Read(http.Header{}, body); !errors.Is(err, payment.ErrNotGenuine) {
		t.Errorf("no signature: %v", err)
	}
	stranger := newStand(t)
	if _, err := stranger.provider.Read(header, body); !errors.Is(err, payment.ErrNotGenuine) {
		t.Errorf("another secret: %v", err)
	}
}

func TestRead_IgnoresWhatMeansNothing(t *testing.T) {
	s := newStand(t)
	id := uuid.NewString()
	for name, body := range map[string]string{
		"an unknown type": `{"type":"customer.created","data":{"paymentId":"` + id + `"}}`,
		"no payment":      `{"type":"payment.paid","data":{"amount":1,"currency":"VND"}}`,
		"no money":        `{"type":"payment.paid","data":{"paymentId":"` + id + `","currency":"VND"}}`,
	} {
		h := http.Header{}
		if err := s.keys.Sign(h, "evt", s.cfg.Clock(), []byte(body)); err != nil {
			t.Fatal(err)
		}
		if e, err := s.provider.Read(h, []byte(body)); err != nil || e.Kind != payment.Ignored || e.ID != "evt" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestAPI_LetsOnlyTheShopIn(t *testing.T) {
	s := newStand(t)
	stranger, err := New(Config{URL: s.url, Secrets: []string{webhook.NewSecret()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Start(t.Context(), anOrder()); err == nil {
		t.Error("a stranger opened a page")
	}
	if len(s.Payments()) != 0 {
		t.Error("a stranger's page exists")
	}
}

func TestConfig_IsRefusedByName(t *testing.T) {
	if _, err := New(Config{URL: "sandbox", Secrets: []string{webhook.NewSecret()}}); err == nil {
		t.Error("a relative URL is taken")
	}
	if _, err := New(Config{URL: "http://127.0.0.1:1"}); err == nil {
		t.Error("no secret is taken")
	}
	if _, err := NewServer(ServerConfig{CallbackURL: "ftp://x/", Secret: webhook.NewSecret()}); err == nil {
		t.Error("a callback by ftp is taken")
	}
	if _, err := NewServer(ServerConfig{Secret: "secret"}); err == nil {
		t.Error("a bad secret is taken")
	}
}
