package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ropeline/booking"
)

func TestSeats_AreSentOnceAndThenKnown(t *testing.T) {
	s := newStand(t)
	got := s.do("GET", "/v1/events/42/seats", "").is(200, "").has("free", 1).header("Etag", `W/"one"`).header("Cache-Control", "no-cache").
		header("Content-Type", "application/json").header("Vary", "Accept-Encoding")
	seats, _ := got.body["seats"].(map[string]any)
	if seats["F5"] != "SOLD" || seats["F7"] != "AVAILABLE" {
		t.Errorf("got %v", seats)
	}
	for _, tag := range []string{`W/"one"`, `"one"`, `"zero", W/"one"`, "*"} {
		if got := s.do("GET", "/v1/events/42/seats", "", "If-None-Match", tag).is(304, ""); got.Body.Len() > 0 || got.Header().Get("Etag") == "" {
			t.Errorf("%s: got %q, ETag %q", tag, got.Body, got.Header().Get("Etag"))
		}
	}
	for _, tag := range []string{`W/"two"`, `one`, ``} {
		s.do("GET", "/v1/events/42/seats", "", "If-None-Match", tag).is(200, "")
	}
	if got := s.do("HEAD", "/v1/events/42/seats", "").is(200, ""); got.Body.Len() > 0 {
		t.Errorf("HEAD has a body: %s", got.Body)
	}
}

func TestSeats_OfAShowtimeAreBooked(t *testing.T) {
	got := newStand(t).do("GET", "/showtimes/42/seats", "").is(200, "").header("Etag", `W/"two"`)
	if seats, _ := got.body["seats"].(map[string]any); seats["F5"] != "BOOKED" {
		t.Errorf("got %v", seats)
	}
}

func TestSeats_AreZippedForWhoTakesIt(t *testing.T) {
	s := newStand(t)
	s.core.seatMap.Gzip = blobOf(s.core.seatMap.JSON).zipped
	for accept, want := range map[string]string{"gzip": "gzip", "br, gzip;q=0.5": "gzip", "*": "gzip", "": "", "gzip;q=0": "", "*;q=0": "", "identity": "", "gzip;q=x": ""} {
		s.do("GET", "/v1/events/42/seats", "", "Accept-Encoding", accept).is(200, "").has("free", 1).header("Content-Encoding", want)
	}
}

func TestSeats_OfAnEventThatIsNotThere(t *testing.T) {
	s := newStand(t)
	for _, path := range []string{"/events/77", "/events/9", "/events/x", "/showtimes/0"} { // 9 is a draft
		for _, rest := range []string{"", "/seats", "/layout"} {
			s.do("GET", "/v1"+path+rest, "").is(404, "no-event")
		}
	}
	s.core.fail = booking.ErrAway
	s.do("GET", "/events/42/seats", "").is(503, "store-away")
}

func TestLayout_IsEncodedOnceForAHall(t *testing.T) {
	s := newStand(t)
	got := s.do("GET", "/v1/events/42/layout", "").is(200, "").has("name", "Nhà hát lớn").has("mapId", 1)
	if seats, _ := got.body["seats"].([]any); len(seats) != 2 {
		t.Errorf("got %v", got.body)
	}
	tag := got.Header().Get("Etag")
	s.do("GET", "/showtimes/42/layout", "", "If-None-Match", tag).is(304, "")
	s.do("GET", "/events/1/layout", "", "Accept-Encoding", "gzip").is(200, "").header("Content-Encoding", "gzip").header("Etag", tag)
	if n := len(s.api.layouts.all); n != 1 {
		t.Errorf("%d layouts are kept, want 1", n)
	}
	changed := *hall
	changed.Name = "another"
	if b, _ := s.api.layouts.encoded(&changed); !strings.Contains(string(b.plain), "another") {
		t.Errorf("got the old hall: %s", b.plain)
	}
	for i := range int64(3 * mostLayouts) {
		_, _ = s.api.layouts.encoded(&booking.Layout{Map: i + 10})
	}
	if n := len(s.api.layouts.all); n > mostLayouts {
		t.Errorf("%d layouts are kept, want at most %d", n, mostLayouts)
	}
}

func TestEvent_SaysWhatIsOnSaleAndHow(t *testing.T) {
	s := newStand(t, func(c *Config) { c.Now = func() time.Time { return time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC) } })
	s.core.events[42].OpensAt = time.Date(2026, 10, 3, 13, 0, 0, 0, time.UTC)
	got := s.do("GET", "/v1/events/42", "").is(200, "").has("eventId", 42).has("name", "Spring <Tour>").has("startsAt", "2026-10-06T12:00:00Z").
		has("holdSeconds", 300).has("checkoutSeconds", 240).has("rooms", []string{"spring-tour", "vip"}).has("salesOpenAt", "2026-10-03T13:00:00Z").
		has("salesCloseAt", nil).has("serverTime", "2026-10-03T12:00:00Z").has("limits", map[string]any{"maxSeats": 4, "customerSeats": 4})
	prices, _ := json.Marshal(got.body["prices"])
	if want := `[{"price":{"amount":3000000,"currency":"VND"},"ticketType":"standard","tier":"VIP"}]`; string(prices) != want {
		t.Errorf("got prices %s, want %s", prices, want)
	}
	s.do("GET", "/events/1", "").is(200, "").has("rooms", []string{})
}

func TestPage_IsWhereAPersonIsSent(t *testing.T) {
	s := newStand(t)
	for from, to := range map[string]string{"/events/42": "/events/42/", "/v1/events/42": "/events/42/", "/v1/events/42/": "/events/42/", "/showtimes/42": "/showtimes/42/"} {
		s.do("GET", from, "", "Accept", "text/html,*/*").is(303, "").header("Location", to)
	}
	s.do("GET", "/events/42/", "", "Accept", "application/json").is(200, "").has("eventId", 42)
	s.do("GET", "/events/42/", "", "Accept", "text/html", "Sec-Fetch-Mode", "cors").is(200, "").has("eventId", 42)
}

func TestPage_TellsAPersonTheSame(t *testing.T) {
	s := newStand(t)
	for lang, says := range map[string][]string{
		"en-GB,en;q=0.9": {`lang="en"`, "Spring &lt;Tour&gt;", "19:00", "Tuesday, 6 October 2026", "3,000,000 VND", "Up to 4 seats at once", "5 minutes", "seats are free", "On sale now."},
		"vi":             {`lang="vi"`, "thứ ba, 6/10/2026", "3.000.000 VND", "5 phút", "ghế còn trống", "Nhà hát lớn", "Đang mở bán."},
		"de, *":          {`lang="vi"`},
	} {
		got := s.do("GET", "/events/42/", "", "Accept", "text/html", "Accept-Language", lang).is(200, "")
		for _, want := range says {
			if !strings.Contains(got.Body.String(), want) {
				t.Errorf("%s: no %q in %s", lang, want, got.Body)
			}
		}
		for _, never := range []string{"<script", "Spring <Tour>", "style-src 'unsafe"} {
			if strings.Contains(got.Body.String()+got.Header().Get("Content-Security-Policy"), never) {
				t.Errorf("%s: %q in the page", lang, never)
			}
		}
	}
	s.do("GET", "/events/77/", "", "Accept", "text/html").is(404, "").header("Content-Type", "text/html; charset=utf-8")
	s.do("GET", "/events/9/", "", "Accept", "text/html").is(404, "")
}

func TestPage_SaysWhetherItIsOnSale(t *testing.T) {
	now := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status        string
		opens, closes time.Duration // from now; 0 = none
		says          string
	}{
		{"ON_SALE", 0, 0, "On sale now."}, {"ON_SALE", time.Hour, 0, "Sales open on Saturday, 3 October 2026, 20:00 +07."},
		{"ON_SALE", -time.Hour, time.Hour, "On sale until Saturday, 3 October 2026, 20:00 +07."}, {"ON_SALE", 0, -time.Hour, "Sales are closed."},
		{"CLOSED", 0, 0, "Sales are closed."}, {"PAUSED", 0, 0, "Sales are paused."}, {"CANCELLED", 0, 0, "This event is cancelled."},
	} {
		e := &booking.Event{Status: c.status, Zone: "Asia/Ho_Chi_Minh", MaxSeats: 4, HoldTTL: 90 * time.Second}
		if c.opens != 0 {
			e.OpensAt = now.Add(c.opens)
		}
		if c.closes != 0 {
			e.ClosesAt = now.Add(c.closes)
		}
		view := pageOf(e, english, now)
		if view.Sales != c.says || !strings.Contains(view.Limits[1], "90 seconds") {
			t.Errorf("%+v: got %q, %v", c, view.Sales, view.Limits)
		}
	}
}

func TestPrice_IsWrittenAsItsCurrencyIs(t *testing.T) {
	for _, c := range []struct {
		amount   int64
		currency string
		want     string
	}{{0, "VND", "0 VND"}, {999, "VND", "999 VND"}, {300000, "VND", "300,000 VND"}, {5, "EUR", "0.05 EUR"}, {123456, "EUR", "1,234.56 EUR"}, {1234, "KWD", "1.234 KWD"}, {-100000, "USD", "-1,000.00 USD"}} {
		if got := priceText(booking.Money{Amount: c.amount, Currency: c.currency}, ",", "."); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
