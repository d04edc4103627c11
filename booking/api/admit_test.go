package api

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"ropeline/booking"
)

const oneSeat = `{"seats":["F5"]}`

func TestAdmission_IsAskedForOnEveryPathWithHolds(t *testing.T) {
	s := newStand(t)
	id := s.held()
	calls := len(s.core.holds)
	for _, token := range []string{"", "no slash", "spring-tour/"} { // none, not valid, nobody's
		for _, c := range [][2]string{
			{"POST", "/events/42/holds"}, {"POST", "/showtimes/42/holds"}, {"GET", "/holds/" + id}, {"DELETE", "/holds/" + id},
			{"POST", "/holds/" + id + "/extend"}, {"POST", "/holds/" + id + "/checkout"},
			// of what doesn't exist nothing else is said
			{"POST", "/events/77/holds"}, {"POST", "/events/x/holds"}, {"POST", "/events/9/holds"}, {"GET", "/holds/" + uuid.NewString()}, {"GET", "/holds/x"},
			{"GET", "/events/42/holds"}, {"PUT", "/holds/" + id}, {"GET", "/holds"}, {"GET", "/holds/" + id + "/nothing"}, {"POST", "/events/42/Holds"}, {"POST", "/events/42/h%6Flds"},
		} {
			for _, base := range []string{"", "/v1"} {
				header := []string{"Idempotency-Key", "k"}
				if token != "" {
					header = append(header, "X-Queue-Token", token)
				}
				s.do(c[0], base+c[1], oneSeat, header...).is(403, "not-admitted").
					has("title", "Not admitted").has("error", "Not admitted").has("next", "rejoin-queue")
			}
		}
	}
	if len(s.core.holds) != calls || len(s.core.checkouts) > 0 || len(s.core.extended) > 0 {
		t.Error("the core was asked by somebody who was not let in")
	}
}

func TestAdmission_NamesTheRoomAndWhereToJoin(t *testing.T) {
	newStand(t).do("POST", "/v1/events/42/holds", oneSeat).is(403, "not-admitted").
		has("room", "spring-tour").has("join", "/_ropeline/events/spring-tour/queue")
	s := newStand(t, func(c *Config) { c.Join = func(room string) string { return "/wait/" + room } })
	s.do("POST", "/v1/events/42/holds", oneSeat).is(403, "not-admitted").has("join", "/wait/spring-tour")
}

func TestAdmission_OfAnotherRoomIsNone(t *testing.T) {
	s := newStand(t)
	s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", "other/an").is(403, "not-admitted").has("room", "spring-tour")
	s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", "vip/an").is(201, "")
}

func TestAdmission_EndsAndTheHoldIsOutOfReachButNotTheOrder(t *testing.T) {
	s := newStand(t)
	got := s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", an).is(201, "")
	id, key := got.text("holdId"), got.Header().Get("X-Customer-Key")
	s.do("GET", "/v1/holds/"+id, "", "X-Customer-Key", key).is(403, "not-admitted").has("room", "spring-tour")
	s.do("POST", "/v1/holds/"+id+"/checkout", "", "X-Customer-Key", key, "Idempotency-Key", "k").is(403, "not-admitted")
	s.do("GET", "/v1/holds/"+id, "", "X-Customer-Key", key, "X-Queue-Token", "other/an").is(403, "not-admitted")
	s.do("GET", "/v1/bookings/"+id, "", "X-Customer-Key", key).is(200, "")
	s.do("POST", "/v1/bookings/"+id+"/cancel", "", "X-Customer-Key", key).is(200, "").has("status", "CANCELLED")
}

func TestAdmission_OfALaterSessionReachesTheHoldByTheKey(t *testing.T) {
	s := newStand(t)
	got := s.do("POST", "/v1/events/42/holds", oneSeat, "X-Queue-Token", an).is(201, "")
	key := got.Header().Get("X-Customer-Key")
	s.do("POST", "/v1/holds/"+got.text("holdId")+"/checkout", "", "X-Customer-Key", key, "X-Queue-Token", "spring-tour/an-again", "Idempotency-Key", "k").is(201, "")
	if c := s.core.checkouts[0]; c.Customer != "an" || c.Room != "spring-tour" || c.Session != "session of an-again" {
		t.Errorf("got %+v, want customer an in the new session", c.Admission)
	}
}

func TestEventWithoutRooms_MakesACustomerAndKnowsItAgain(t *testing.T) {
	s := newStand(t)
	first := s.do("POST", "/v1/events/1/holds", oneSeat).is(201, "")
	key := first.Header().Get("X-Customer-Key")
	made := s.core.holds[0].Customer
	if !strings.HasPrefix(made, "guest-") || len(made) < 20 {
		t.Errorf("got customer %q", made)
	}
	s.do("POST", "/v1/events/1/holds", `{"seats":["F6"]}`, "X-Customer-Key", key).is(201, "").header("X-Customer-Key", key)
	s.do("POST", "/v1/events/1/holds", `{"seats":["F7"]}`).is(201, "")
	if h := s.core.holds; h[1].Customer != made || h[2].Customer == made {
		t.Errorf("got customers %q, %q, %q", made, h[1].Customer, h[2].Customer)
	}
	s.do("GET", "/v1/holds/"+first.text("holdId"), "", "X-Customer-Key", key).is(200, "")
	s.do("GET", "/v1/holds/"+first.text("holdId"), "").is(403, "not-admitted")
}

func TestEventWithoutRooms_KeepsTheCustomerThatLost(t *testing.T) {
	s := newStand(t)
	s.core.taken["F5"] = true
	lost := s.do("POST", "/v1/events/1/holds", oneSeat).is(409, "seats-taken")
	key := lost.Header().Get("X-Customer-Key")
	s.do("POST", "/v1/events/1/holds", `{"seats":["F6"]}`, "X-Customer-Key", key).is(201, "")
	if a, b := s.core.holds[0].Customer, s.core.holds[1].Customer; a != b {
		t.Errorf("got %s, then %s", a, b)
	}
}

func TestEventWithoutRooms_TakesFromATokenOnlyWhoItIs(t *testing.T) {
	s := newStand(t)
	s.do("POST", "/v1/events/1/holds", oneSeat, "X-Queue-Token", an).is(201, "")
	if got, want := s.core.holds[0].Admission, (booking.Admission{Customer: "an"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEvent_ThatIsUnknownIsSaidToWhoIsAdmitted(t *testing.T) {
	s := newStand(t)
	for _, id := range []string{"77", "x", "0", "042", "9", "9999999999999999999", "-1"} {
		s.do("POST", "/v1/events/"+id+"/holds", oneSeat, "X-Queue-Token", an).is(404, "no-event")
	}
}

func TestCrossOrigin_PagesOfOtherSitesChangeNothing(t *testing.T) {
	s := newStand(t)
	id := s.held()
	for _, path := range []string{"/v1/events/42/holds", "/v1/holds/" + id + "/extend", "/v1/holds/" + id + "/checkout", "/v1/bookings/" + id + "/cancel"} {
		s.do("POST", path, oneSeat, "X-Queue-Token", an, "Sec-Fetch-Site", "cross-site", "Idempotency-Key", "k").is(403, "cross-origin")
		s.do("POST", path, oneSeat, "X-Queue-Token", an, "Origin", "https://evil.example", "Idempotency-Key", "k").is(403, "cross-origin")
	}
	s.do("DELETE", "/v1/holds/"+id, "", "X-Queue-Token", an, "Sec-Fetch-Site", "cross-site").is(403, "cross-origin")
	s.do("POST", "/v1/payments/callback", "{}", "Origin", "https://provider.example").is(200, "")
	s.do("GET", "/v1/events/42/seats", "", "Sec-Fetch-Site", "cross-site").is(200, "")
}
