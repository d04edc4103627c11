package sandbox

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"ropeline/booking/payment"
)

// startPayment is POST /v1/payments.
func (s *Server) startPayment(r *http.Request) (int, any, error) {
	var o order
	if err := read(r, &o); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behaviour.Away {
		return 0, nil, errAway
	}
	lot := next(&s.behaviour.FailStarts, &s.behaviour.LoseStarts)
	if lot == fails {
		return 0, nil, errFailed
	}
	p, isNew, err := s.ledger.start(payment.Order(o), s.cfg.Clock())
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusOK
	if isNew {
		status = http.StatusCreated
		s.record(p)
	}
	if lot == loses {
		return 0, nil, errLost
	}
	return status, s.account(r, p), nil
}

// getPayment is GET /v1/payments/{id}.
func (s *Server) getPayment(r *http.Request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behaviour.Away {
		return 0, nil, errAway
	}
	p, err := s.payment(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.account(r, p), nil
}

// closePayment is POST /v1/payments/{id}/close. A page that ended before stays as it is.
func (s *Server) closePayment(r *http.Request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behaviour.Away {
		return 0, nil, errAway
	}
	p, err := s.payment(r)
	if err != nil {
		return 0, nil, err
	}
	if next(&s.behaviour.FailCloses, nil) == fails {
		return 0, nil, errFailed
	}
	if s.ledger.end(p, closed, s.cfg.Clock()) == nil {
		s.record(p)
		s.announce(newEvent(typeExpired, p.At, p.data()))
	}
	return http.StatusOK, s.account(r, p), nil
}

// startRefund is POST /v1/refunds.
func (s *Server) startRefund(r *http.Request) (int, any, error) {
	var asked Refund
	if err := read(r, &asked); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behaviour.Away {
		return 0, nil, errAway
	}
	lot := next(&s.behaviour.FailRefunds, &s.behaviour.LoseRefunds)
	if lot == fails {
		return 0, nil, errFailed
	}
	status := done
	if s.behaviour.SlowRefunds {
		status = underWay
	}
	got, p, isNew, err := s.ledger.refund(asked, status)
	if err != nil {
		return 0, nil, err
	}
	if isNew {
		s.record(p)
		if got.Status == done {
			s.announce(s.refundEvent(got, p))
		}
	}
	if lot == loses {
		return 0, nil, errLost
	}
	return http.StatusOK, got, nil
}

// Settle ends the refunds that are under way: the money is back, or it could not be given back.
func (s *Server) Settle(worked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := done
	if !worked {
		status = refundTried
	}
	for _, id := range s.ledger.order {
		p := s.ledger.payments[id]
		for i := range p.Refunds {
			if p.Refunds[i].Status == underWay {
				p.Refunds[i].Status = status
				s.record(p)
				s.announce(s.refundEvent(p.Refunds[i], p))
			}
		}
	}
}

func (s *Server) refundEvent(r Refund, p *Payment) event {
	name := typeRefunded
	if r.Status != done {
		name = typeRefundFailed
	}
	d := p.data()
	d.Amount, d.RefundID = r.Amount, r.ID
	return newEvent(name, s.cfg.Clock(), d)
}

// account is what the shop is told of p. The caller has the lock.
func (s *Server) account(r *http.Request, p *Payment) account {
	base := s.cfg.URL
	if base == "" {
		base = "http://" + r.Host
	}
	return account{
		ID: p.ID(), Ref: "sbx_" + p.ID().String(), URL: base + "/pay/" + p.ID().String(), Status: p.Status,
		Captured: p.Captured, CapturedCurrency: p.CapturedCurrency, Charge: p.charge(), At: p.At,
	}
}

// Idle returns when no callback is under way or waiting for its time, or with the error of ctx.
func (s *Server) Idle(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find is the payment with this id.
func (s *Server) find(id uuid.UUID) (*Payment, error) {
	if p := s.ledger.payments[id]; p != nil {
		return p, nil
	}
	return nil, errUnknown
}
