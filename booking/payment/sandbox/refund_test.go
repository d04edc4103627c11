package sandbox

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"ropeline/booking/payment"
)

func refundOf(o payment.Order, amount int64) payment.Refund {
	return payment.Refund{ID: uuid.New(), PaymentID: o.PaymentID, Amount: amount, Currency: o.Currency}
}

func TestRefund_MovesMoneyOncePerID(t *testing.T) {
	s := newStand(t)
	o := s.paid(t, Never)
	r := refundOf(o, o.Amount)
	for range 3 {
		state, err := s.provider.Refund(t.Context(), r)
		if err != nil || !state.Done || state.Ref == "" {
			t.Fatalf("Refund = %+v, %v", state, err)
		}
	}
	p := s.Payments()[0]
	if len(p.Refunds) != 1 || p.Returned() != o.Amount {
		t.Errorf("refunds %+v", p.Refunds)
	}
	got := s.events(t)
	if len(got) != 1 || got[0].Kind != payment.Refunded || got[0].RefundID != r.ID || got[0].Amount != o.Amount {
		t.Errorf("callbacks %+v", got)
	}
}

func TestRefund_WhoseAnswerIsLostTwiceIsMadeOnce(t *testing.T) {
	s := newStand(t)
	o := s.paid(t, Never)
	s.Behave(Behaviour{FailRefunds: 1, LoseRefunds: 2})
	r := refundOf(o, o.Amount)
	for range 3 {
		if _, err := s.provider.Refund(t.Context(), r); err == nil || errors.As(err, new(payment.Permanent)) {
			t.Fatalf("Refund = %v, want an error that may pass", err)
		}
	}
	if state, err := s.provider.Refund(t.Context(), r); err != nil || !state.Done {
		t.Fatalf("Refund = %+v, %v", state, err)
	}
	if p := s.Payments()[0]; len(p.Refunds) != 1 || p.Returned() != o.Amount {
		t.Errorf("refunds %+v", p.Refunds)
	}
}

func TestRefund_NeverGivesBackMoreThanWasTaken(t *testing.T) {
	s := newStand(t)
	o := s.paid(t, Never)
	part := refundOf(o, o.Amount-1)
	if _, err := s.provider.Refund(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	reused := part
	reused.Amount = 1
	unpaid := anOrder()
	s.started(t, unpaid)
	foreign := refundOf(o, 1)
	foreign.Currency = "EUR"
	for name, r := range map[string]payment.Refund{
		"two more than are left": refundOf(o, 2), "nothing": refundOf(o, 0), "less than nothing": refundOf(o, -5),
		"the same id, another amount": reused, "an unpaid page": refundOf(unpaid, 1), "another currency": foreign,
	} {
		if _, err := s.provider.Refund(t.Context(), r); !errors.As(err, new(payment.Permanent)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.provider.Refund(t.Context(), refundOf(anOrder(), 1)); !errors.Is(err, payment.ErrUnknown) {
		t.Errorf("no such payment: %v", err)
	}
	if _, err := s.provider.Refund(t.Context(), refundOf(o, 1)); err != nil {
		t.Errorf("what is left: %v", err)
	}
	if got := s.Payments()[0].Returned(); got != o.Amount {
		t.Errorf("given back %d of %d", got, o.Amount)
	}
}

func TestRefund_UnderWayIsSettledLater(t *testing.T) {
	for worked, want := range map[bool]payment.Kind{true: payment.Refunded, false: payment.RefundFailed} {
		s := newStand(t)
		o := s.paid(t, Never)
		s.Behave(Behaviour{SlowRefunds: true})
		r := refundOf(o, o.Amount)
		state, err := s.provider.Refund(t.Context(), r)
		if err != nil || state.Done {
			t.Fatalf("Refund = %+v, %v", state, err)
		}
		s.Settle(worked)
		if got := s.events(t); len(got) != 1 || got[0].Kind != want || got[0].RefundID != r.ID {
			t.Errorf("callbacks %+v, want %s", got, want)
		}
		state, err = s.provider.Refund(t.Context(), r)
		if state.Done != worked || errors.As(err, new(payment.Permanent)) == worked {
			t.Errorf("Refund again = %+v, %v", state, err)
		}
	}
}

func TestAway_IsNoRefusal(t *testing.T) {
	s := newStand(t)
	o := s.paid(t, Never)
	s.Behave(Behaviour{Away: true})
	ref := payment.Ref{PaymentID: o.PaymentID}
	_, startErr := s.provider.Start(t.Context(), anOrder())
	_, lookErr := s.provider.Look(t.Context(), ref)
	_, refundErr := s.provider.Refund(t.Context(), refundOf(o, 1))
	for name, err := range map[string]error{"start": startErr, "look": lookErr, "refund": refundErr, "close": s.provider.Close(t.Context(), ref)} {
		if err == nil || errors.As(err, new(payment.Permanent)) || errors.Is(err, payment.ErrUnknown) {
			t.Errorf("%s: %v, want an error that may pass", name, err)
		}
	}
}
