package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ropeline/booking"
)

// problem is an error as RFC 9457 has it. Type is "urn:ropeline:" and the code, and stable.
type problem struct {
	Type              string   `json:"type"`
	Title             string   `json:"title"`
	Status            int      `json:"status"`
	Detail            string   `json:"detail,omitempty"`
	Instance          string   `json:"instance,omitempty"`
	Code              string   `json:"code"`
	Error             string   `json:"error"` // one sentence for a person; what older clients read
	Conflicts         []string `json:"conflicts,omitempty"`
	RetryAfterSeconds int      `json:"retryAfterSeconds,omitempty"`
	Next              string   `json:"next"` // what helps: refresh-map, extend-hold, rejoin-queue, retry, none
	Room              string   `json:"room,omitempty"`
	Join              string   `json:"join,omitempty"` // path to POST to
	RequestID         string   `json:"requestId"`
}

// kind is what all problems of a code have in common.
type kind struct {
	status int
	title  string
	next   string
}

// kinds of the problems, by code.
var kinds = map[string]kind{
	"bad-request":        {400, "Bad request", "none"},
	"unauthorized":       {401, "Not signed as it must be", "none"},
	"not-admitted":       {403, "Not admitted", "rejoin-queue"},
	"wrong-customer":     {403, "Not your customer id", "none"},
	"cross-origin":       {403, "Not from another site", "none"},
	"service-only":       {403, "Not open", "none"},
	"not-found":          {404, "Nothing here", "none"},
	"no-event":           {404, "No such event", "none"},
	"no-hold":            {404, "No such hold", "none"},
	"no-booking":         {404, "No such booking", "none"},
	"unknown-payment":    {404, "No such payment", "retry"},
	"method-not-allowed": {405, "Method not allowed", "none"},
	"seats-taken":        {409, "Seats are taken", "refresh-map"},
	"cap-reached":        {409, "Customer limit reached", "none"},
	"not-on-sale":        {409, "Not on sale", "none"},
	"hold-gone":          {409, "The hold is gone", "refresh-map"},
	"hold-expiring":      {409, "Too little time to pay", "extend-hold"},
	"extend-limit":       {409, "The hold can't be extended", "none"},
	"already-confirmed":  {409, "Already confirmed", "none"},
	"not-cancellable":    {409, "Can't be cancelled", "none"},
	"amount-mismatch":    {409, "Not the amount that was asked", "none"},
	"not-paid":           {409, "Not paid", "retry"},
	"too-large":          {413, "Too large", "none"},
	"invalid":            {422, "Can't be", "none"},
	"key-reuse":          {422, "Key used for another request", "none"},
	"key-missing":        {428, "Idempotency-Key missing", "retry"},
	"rate-limited":       {429, "Too many holds", "retry"},
	"internal":           {500, "Our fault", "retry"},
	"no-payments":        {501, "Payments are not set up", "none"},
	"payment-provider":   {502, "The payment provider does not answer", "retry"},
	"busy":               {503, "Busy", "retry"},
	"store-away":         {503, "The seats cannot be reached", "retry"},
}

// refusal is a problem of a code. It is an error, so that handlers can return it.
type refusal struct {
	code      string
	detail    string        // "" = none
	sentence  string        // member error; "" = detail, else the title
	conflicts []string      // seats
	retry     time.Duration // 0 = some seconds, where the code is one to retry
}

func (r refusal) Error() string { return "api: " + r.code + " " + r.detail }

// notAdmitted says that no access token of the event's rooms came along. room is one that leads there, "" = unknown.
type notAdmitted struct{ room string }

func (notAdmitted) Error() string { return "api: not admitted" }

// sentinels of the core, each with its code.
var sentinels = []struct {
	err  error
	code string
}{
	{booking.ErrNoEvent, "no-event"},
	{booking.ErrNoBooking, "no-booking"},
	{booking.ErrNotOnSale, "not-on-sale"},
	{booking.ErrHoldGone, "hold-gone"},
	{booking.ErrHoldExpiring, "hold-expiring"},
	{booking.ErrExtendLimit, "extend-limit"},
	{booking.ErrConfirmed, "already-confirmed"},
	{booking.ErrNotCancellable, "not-cancellable"},
	{booking.ErrKeyReuse, "key-reuse"},
	{booking.ErrKeyMissing, "key-missing"},
	{booking.ErrBusy, "busy"},
	{booking.ErrAway, "store-away"},
	{booking.ErrNoProvider, "no-payments"},
	{booking.ErrProvider, "payment-provider"},
	{booking.ErrUnknownPayment, "unknown-payment"},
	{booking.ErrBadCallback, "unauthorized"},
	{booking.ErrNotAdmitted, "not-admitted"},
	{booking.ErrCustomerMissing, "not-admitted"},
}

// causeOf turns an error into what the client is told of it. Unknown ones are ours: internal.
func causeOf(err error, w words) refusal {
	var (
		said    refusal
		taken   *booking.TakenError
		invalid *booking.InvalidError
		limit   *booking.LimitError
	)
	switch {
	case errors.As(err, &said):
		return said
	case errors.As(err, &notAdmitted{}):
		return refusal{code: "not-admitted", sentence: "Not admitted"}
	case errors.As(err, &taken):
		return refusal{
			code: "seats-taken", conflicts: taken.Conflicts,
			detail:   fmt.Sprintf("Seats [%s] of %s %d are no longer free", strings.Join(taken.Conflicts, ", "), w.eventWord(), taken.Event),
			sentence: fmt.Sprintf("Seats [%s] of %s %d are not available", strings.Join(taken.Asked, ", "), w.eventWord(), taken.Event),
		}
	case errors.As(err, &invalid):
		return refusal{code: "invalid", detail: invalid.Reason}
	case errors.As(err, &limit) && limit.Cap > 0:
		return refusal{code: "cap-reached", detail: fmt.Sprintf("A customer may have %d seats of this %s.", limit.Cap, w.eventWord())}
	case errors.As(err, &limit):
		return refusal{code: "rate-limited", retry: limit.Retry}
	case errors.Is(err, context.DeadlineExceeded):
		return refusal{code: "busy"}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return refusal{code: s.code}
		}
	}
	return refusal{code: "internal"}
}

// statusClientGone is for the metrics: nobody reads the answer.
const statusClientGone = 499

// refuse answers with the problem that an error is, and logs those that are our own fault.
func (a *API) refuse(q *request, err error) {
	if q.w.status != 0 { // an answer is under way: there is nothing left to say
		return
	}
	if q.Context().Err() == context.Canceled && errors.Is(err, context.Canceled) {
		q.w.status = statusClientGone
		return
	}
	said := causeOf(err, q.words)
	if said.code == "no-booking" && strings.HasPrefix(q.route, "/holds/") {
		said.code = "no-hold"
	}
	k := kinds[said.code]
	if k.status >= 500 {
		a.log.Error("request failed", "route", q.route, "method", q.Method, "request", q.id, "status", k.status, "err", err)
	}
	p := problem{
		Type: "urn:ropeline:" + said.code, Title: k.title, Status: k.status, Detail: said.detail, Instance: q.URL.EscapedPath(), Code: said.code,
		Error: firstOf(said.sentence, said.detail, k.title), Conflicts: said.conflicts, Next: k.next, RequestID: q.id,
	}
	var out notAdmitted
	if errors.As(err, &out) && out.room != "" {
		p.Room, p.Join = out.room, a.cfg.Join(out.room)
	}
	h := q.w.Header()
	if k.status == http.StatusServiceUnavailable || k.status == http.StatusTooManyRequests {
		p.RetryAfterSeconds = retryAfter(said.retry)
		h.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	if k.status == http.StatusUnauthorized && strings.HasSuffix(q.route, "/confirm") {
		h.Set("WWW-Authenticate", "Bearer")
	}
	h.Set("Cache-Control", "no-store")
	h.Del("Etag")
	_ = q.write(k.status, "application/problem+json", p)
}

// retryAfter is a number of seconds, not the same for everybody: a few, or some more than what is asked for.
func retryAfter(least time.Duration) int {
	if least <= 0 {
		return 2 + rand.IntN(4)
	}
	return int((least+time.Second-1)/time.Second) + rand.IntN(3)
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}
