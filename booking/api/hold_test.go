package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ropeline/booking"
)

func TestHold_AnswersWithTheHoldAndItsTime(t *testing.T) {
	s := newStand(t)
	got := s.do("POST", "/v1/events/42/holds", `{"seats":["F6",{"seat":"F5","ticketType":"child"}],"unknown":{"a":[1]}}`,
		"X-Queue-Token", an, "Idempotency-Key", "k-1", "X-Request-Id", "abc.1").is(201, "")
	id := got.text("holdId")
	got.has("status", "HOLD").has("eventId", 42).has("seats", []string{"F6", "F5"}).has("amount", map[string]any{"amount": 6000000, "currency": "VND"}).
		has("expiresAt", "2026-10-03T12:05:00.5Z").has("expiresInSeconds", 300).has("serverTime", "2026-10-03T12:00:00Z").
		header("Location", "/v1/holds/"+id).header("Idempotent-Replayed", "").header("X-Request-Id", "abc.1").header("Cache-Control", "no-store")
	asked := s.core.holds[0]
	want := booking.Admission{Room: "spring-tour", Customer: "an", Session: "session of an", Channels: 3}
	if asked.Admission != want || asked.Key != "k-1" || asked.Event != 42 {
		t.Errorf("the core was asked %+v, want admission %+v and key k-1", asked, want)
	}
	if c := []booking.Choice{{Seat: "F6"}, {Seat: "F5", TicketType: "child"}}; !slices.Equal(asked.Choices, c) {
		t.Errorf("got choices %v, want %v", asked.Choices, c)
	}
}

func TestHold_RepeatedWithItsKeyIsTheSame(t *testing.T) {
	s := newStand(t)
	first := s.do("POST", "/events/42/holds", `{"seats":["F5"]}`, "X-Queue-Token", an, "Idempotency-Key", "k").is(201, "")
	again := s.do("POST", "/events/42/holds", `{"seats":["F5"]}`, "X-Queue-Token", an, "Idempotency-Key", "k").is(200, "").
		has("holdId", first.text("holdId")).header("Idempotent-Replayed", "true").header("Location", "/holds/"+first.text("holdId"))
	if again.Header().Get("X-Customer-Key") == "" {
		t.Error("who lost the first answer gets no customer key")
	}
}

func TestHold_SaysWhichSeatsAreTakenInTheWordsOfTheRoute(t *testing.T) {
	s := newStand(t)
	s.held("F6")
	const body = `{"seats":["F6","F7"]}`
	s.do("POST", "/v1/events/42/holds", body, "X-Queue-Token", "vip/binh").is(409, "seats-taken").
		has("conflicts", []string{"F6"}).has("next", "refresh-map").has("type", "urn:ropeline:seats-taken").
		has("error", "Seats [F6, F7] of event 42 are not available").has("detail", "Seats [F6] of event 42 are no longer free").
		has("instance", "/v1/events/42/holds").header("Content-Type", "application/problem+json")
	s.do("POST", "/showtimes/42/holds", body, "X-Queue-Token", "vip/binh").is(409, "seats-taken").
		has("error", "Seats [F6, F7] of showtime 42 are not available")
}

func TestHold_RefusesWhatCannotBeAskedFor(t *testing.T) {
	many := make([]string, 10000)
	for i := range many {
		many[i] = fmt.Sprintf(`"A%d"`, i%10)
	}
	for _, c := range []struct {
		name, body string
		status     int
		code, says string
	}{
		{"no body", ``, 422, "invalid", ""},
		{"no seats", `{}`, 422, "invalid", ""},
		{"null seats", `{"seats":null}`, 422, "invalid", ""},
		{"no seat", `{"seats":[]}`, 422, "invalid", ""},
		{"five seats", `{"seats":["A1","A2","A3","A4","A5"]}`, 422, "invalid", "Max 4 seats"},
		{"10,000 seats", `{"seats":[` + strings.Join(many, ",") + `]}`, 422, "invalid", "Max 4 seats"},
		{"a seat twice", `{"seats":["F5","F5"]}`, 422, "invalid", "Seat F5 is asked for twice."},
		{"a seat twice in two forms", `{"seats":["F5",{"seat":"F5","ticketType":"child"}]}`, 422, "invalid", "Seat F5 is asked for twice."},
		{"an odd seat", `{"seats":["F5; DROP"]}`, 422, "invalid", ""},
		{"an empty seat", `{"seats":[""]}`, 422, "invalid", ""},
		{"a number", `{"seats":[5]}`, 422, "invalid", ""},
		{"an object without a seat", `{"seats":[{"ticketType":"child"}]}`, 422, "invalid", ""},
		{"seats no list", `{"seats":"F5"}`, 422, "invalid", ""},
		{"another case", `{"Seats":["F5"]}`, 422, "invalid", ""},
		{"areas", `{"areas":[{"area":"GA","quantity":3}]}`, 422, "invalid", ""},
		{"replaces no id", `{"seats":["F5"],"replaces":"x"}`, 422, "invalid", ""},
		{"replaces a number", `{"seats":["F5"],"replaces":5}`, 422, "invalid", ""},
		{"no JSON", `seats=F5`, 400, "bad-request", ""},
		{"a list", `["F5"]`, 400, "bad-request", ""},
		{"null", `null`, 400, "bad-request", ""},
		{"cut", `{"seats":["F5"]`, 400, "bad-request", ""},
		{"more than one", `{"seats":["F5"]}{"seats":["F6"]}`, 400, "bad-request", ""},
		{"no UTF-8", "{\"seats\":[\"F\xff\"]}", 400, "bad-request", ""},
		{"deep", `{"seats":["F5"],"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, 400, "bad-request", ""},
		{"large", `{"seats":["F5"],"x":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "too-large", ""},
		{"another's customer id", `{"seats":["F5"],"customerId":"binh"}`, 403, "wrong-customer", ""},
		{"another's number", `{"seats":["F5"],"customerId":7}`, 403, "wrong-customer", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t)
			got := s.do("POST", "/v1/events/42/holds", c.body, "X-Queue-Token", an).is(c.status, c.code)
			if c.says != "" {
				got.has("error", c.says)
			}
			if len(s.core.holds) > 0 {
				t.Errorf("the core was asked %+v", s.core.holds)
			}
		})
	}
}

func TestHold_TakesTheCustomerIdThatWasAdmitted(t *testing.T) {
	s := newStand(t)
	s.do("POST", "/v1/events/42/holds", `{"seats":["F5"],"customerId":"an"}`, "X-Queue-Token", an).is(201, "")
	s.do("POST", "/v1/events/42/holds", `{"seats":["F6"],"customerId":101}`, "X-Queue-Token", "vip/101").is(201, "")
	s.do("POST", "/v1/events/42/holds", `{"seats":["F7"],"customerId":null}`, "X-Queue-Token", an).is(201, "")
}

func TestHold_ReplacesAnother(t *testing.T) {
	s := newStand(t)
	old := s.held()
	s.do("POST", "/v1/events/42/holds", `{"seats":["F6"],"replaces":"`+old+`"}`, "X-Queue-Token", an).is(201, "")
	if got := s.core.holds[1].Replaces.String(); got != old {
		t.Errorf("got %s, want %s", got, old)
	}
}

func TestKey_IsOneTo64VisibleCharacters(t *testing.T) {
	s := newStand(t)
	for _, key := range []string{"", " ", "two words", "kéy", strings.Repeat("k", 65), "tab\tinside"} {
		s.do("POST", "/v1/events/42/holds", `{"seats":["F5"]}`, "X-Queue-Token", an, "Idempotency-Key", key).is(400, "bad-request")
	}
	s.do("POST", "/v1/events/42/holds", `{"seats":["F5"]}`, "X-Queue-Token", an, "Idempotency-Key", "a", "Idempotency-Key", "b").is(400, "bad-request")
	s.do("POST", "/v1/events/42/holds", `{"seats":["F5"]}`, "X-Queue-Token", an, "Idempotency-Key", strings.Repeat("~", 64)).is(201, "")
}

func TestHold_LosesByItsReason(t *testing.T) {
	for _, c := range []struct {
		err        error
		status     int
		code, next string
	}{
		{booking.ErrNotOnSale, 409, "not-on-sale", "none"},
		{booking.ErrHoldGone, 409, "hold-gone", "refresh-map"},
		{booking.ErrKeyReuse, 422, "key-reuse", "none"},
		{&booking.InvalidError{Reason: "no seat F9"}, 422, "invalid", "none"},
		{&booking.LimitError{Cap: 4}, 409, "cap-reached", "none"},
		{&booking.LimitError{Retry: 1500 * time.Millisecond}, 429, "rate-limited", "retry"},
		{fmt.Errorf("hold: %w", booking.ErrBusy), 503, "busy", "retry"},
		{booking.ErrAway, 503, "store-away", "retry"},
		{booking.ErrNotAdmitted, 403, "not-admitted", "rejoin-queue"},
		{fmt.Errorf("a secret of ours"), 500, "internal", "retry"},
	} {
		t.Run(c.code, func(t *testing.T) {
			s := newStand(t)
			event := s.core.events[42]
			s.core.fail = c.err
			s.api.core = knows{s.core, event}
			got := s.do("POST", "/v1/events/42/holds", `{"seats":["F9"]}`, "X-Queue-Token", an).is(c.status, c.code).has("next", c.next)
			if strings.Contains(got.Body.String(), "secret") {
				t.Errorf("the client is told our error: %s", got.Body)
			}
			if later := c.status == 429 || c.status == 503; later != (got.Header().Get("Retry-After") != "") {
				t.Errorf("Retry-After: %q", got.Header().Get("Retry-After"))
			}
			if ours := c.status >= 500; ours != strings.Contains(s.log.String(), c.err.Error()) {
				t.Errorf("logged: %q", s.log)
			}
		})
	}
}

func TestProblem_RetriesAreSpread(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		n := retryAfter(1500 * time.Millisecond)
		if n < 2 || n > 4 {
			t.Fatalf("got %d s, want 2 to 4", n)
		}
		seen[n] = true
	}
	if len(seen) < 2 {
		t.Error("everybody is told the same second")
	}
}

func TestHold_IsShownExtendedAndReleased(t *testing.T) {
	s := newStand(t)
	id := s.held()
	for _, base := range []string{"/v1/holds/", "/holds/"} {
		s.do("GET", base+id, "", "X-Queue-Token", an).is(200, "").has("holdId", id).has("expiresInSeconds", 300)
	}
	s.do("POST", "/v1/holds/"+id+"/extend", "", "X-Queue-Token", an, "Idempotency-Key", "more").is(200, "").has("holdId", id)
	if !slices.Equal(s.core.extended, []string{"more"}) {
		t.Errorf("got keys %v", s.core.extended)
	}
	s.do("DELETE", "/holds/"+id, "", "X-Queue-Token", an).is(204, "")
	s.do("DELETE", "/holds/"+id, "", "X-Queue-Token", an).is(204, "")
	s.do("POST", "/holds/"+id+"/extend", "{}", "X-Queue-Token", an).is(409, "hold-gone").has("next", "refresh-map")
	s.do("GET", "/holds/"+id, "", "X-Queue-Token", an).is(200, "").has("status", "CANCELLED").has("expiresInSeconds", 0)
}

func TestHold_ThatIsPaidCannotBeReleased(t *testing.T) {
	s := newStand(t)
	id := s.held()
	s.becomes(id, booking.Confirmed)
	s.do("DELETE", "/v1/holds/"+id, "", "X-Queue-Token", an).is(409, "already-confirmed")
}

func TestHold_OfAnotherCustomerIsNotThere(t *testing.T) {
	s := newStand(t)
	id := s.held()
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/extend"}, {"POST", "/checkout"}} {
		s.do(c[0], "/v1/holds/"+id+c[1], "", "X-Queue-Token", "spring-tour/binh", "Idempotency-Key", "k").is(404, "no-hold")
		s.do(c[0], "/v1/holds/not-an-id"+c[1], "", "X-Queue-Token", an, "Idempotency-Key", "k").is(404, "no-hold")
	}
}

// knows is a core whose every answer fails but that it knows its event.
type knows struct {
	*fakeCore
	event *booking.Event
}
