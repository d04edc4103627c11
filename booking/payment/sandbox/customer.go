package sandbox

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Pay is what the page does when a customer pays. It returns false if the page was paid before: then nothing is taken.
// delay is how long callbacks wait; at most an hour.
func (s *Server) Pay(id uuid.UUID, how How, delay time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(id)
	if err != nil {
		return false, err
	}
	if p.Status == paid {
		return false, nil
	}
	amount, currency := p.Order.Amount, p.Order.Currency
	switch how {
	case "", OK, Twice, Never, Reordered:
	case Late:
		if delay == 0 {
			delay = lateBy
		}
	case WrongAmount:
		if amount--; amount == 0 {
			amount = 2
		}
	case WrongCurrency:
		if currency = "EUR"; p.Order.Currency == "EUR" {
			currency = "USD"
		}
	default:
		return false, fmt.Errorf("%w: how %q", errBody, how)
	}
	if delay < 0 || delay > mostDelay {
		return false, fmt.Errorf("%w: delay %v", errBody, delay)
	}
	now := s.cfg.Clock()
	before := p.At
	if err := s.ledger.capture(p, amount, currency, now); err != nil {
		return false, err
	}
	s.record(p)
	e := newEvent(typePaid, now, p.data())
	e.After, e.Twice = delay, how == Twice
	switch how {
	case Never:
	case Reordered:
		s.announce(e, newEvent(typeDeclined, before, data{PaymentID: id}))
	default:
		s.announce(e)
	}
	return true, nil
}

// Decline is what the page does when a customer is refused: it ends.
func (s *Server) Decline(id uuid.UUID, delay time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(id)
	if err != nil {
		return err
	}
	if delay < 0 || delay > mostDelay {
		return fmt.Errorf("%w: delay %v", errBody, delay)
	}
	if p.Status == declined {
		return nil
	}
	if err := s.ledger.end(p, declined, s.cfg.Clock()); err != nil {
		return err
	}
	s.record(p)
	e := newEvent(typeDeclined, p.At, p.data())
	e.After = delay
	s.announce(e)
	return nil
}
