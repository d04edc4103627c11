package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"ropeline/booking"
)

// callback hears from a payment provider. The provider's signature over the body, as it came, is all that counts.
func (a *API) callback(q *request) error {
	provider := q.arg
	if provider == "" && len(a.cfg.ProviderNames) > 0 {
		provider = a.cfg.ProviderNames[0]
	}
	if !slices.Contains(a.cfg.ProviderNames, provider) {
		return refusal{code: "not-found"}
	}
	body, err := q.readBody(a.cfg.MaxCallback)
	if err != nil {
		return err
	}
	var unreadable *booking.InvalidError
	outcome, id, err := a.core.Callback(q.Context(), provider, q.Header, body)
	switch {
	case errors.Is(err, booking.ErrNoProvider):
		return refusal{code: "not-found"}
	case errors.As(err, &unreadable):
		return refusal{code: "bad-request", detail: "The body is none of this provider's."}
	case err != nil:
		return err
	}
	told := callbackBody{Outcome: outcome}
	if id != uuid.Nil {
		told.BookingID = id.String()
	}
	return q.send(http.StatusOK, told)
}
