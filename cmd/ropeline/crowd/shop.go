package crowd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxSeatMap is the most that is kept of a seat map, in bytes: 100,000 seats.
const maxSeatMap = 4 << 20

// eventPath finds the event in the path of the target.
var eventPath = regexp.MustCompile(`^(/v1)?/events/([0-9]{1,18})(/|$)`)

// holdAnswer is the answer to a hold, a swap, an extension.
type holdAnswer struct {
	HoldID           string   `json:"holdId"`
	Seats            []string `json:"seats"`
	ExpiresInSeconds int64    `json:"expiresInSeconds"`
}

// bookingAnswer is the part of a booking that a buyer looks at.
type bookingAnswer struct {
	Status   string `json:"status"`
	Payments []struct {
		Status  string `json:"status"`
		Refunds []struct {
			Status string `json:"status"`
		} `json:"refunds"`
	} `json:"payments"`
}

// refunds counts what is back and what is on its way.
func (b bookingAnswer) refunds() (done, due int) {
	for _, p := range b.Payments {
		for _, r := range p.Refunds {
			if r.Status == "DONE" {
				done++
			} else {
				due++
			}
		}
	}
	return done, due
}

// buyer is a visitor inside, in the shop of one event.
type buyer struct {
	*visitor
	wish wish

	hold  holdAnswer      // the live one; without an id: none
	until time.Time       // it lasts until then at least
	taken map[string]bool // seats that somebody else was faster with
	tries int             // idempotency keys used
}

// key is an Idempotency-Key that was never used before.
func (b *buyer) key() string {
	b.tries++
	return fmt.Sprintf("crowd-%x-%d-%d", b.cfg.Seed, b.visit.id, b.tries)
}

// apiRequest is a request to the booking API as the shop's page, or an app, makes it. path is below /v1.
func (v *visitor) apiRequest(method, path, key string, body any) request {
	req := v.queueRequest(method, "/v1"+path)
	v.sign(req.header)
	if v.plan.api && v.customerKey != "" {
		req.header.Set("X-Customer-Key", v.customerKey)
	}
	if key != "" {
		req.header.Set("Idempotency-Key", key)
	}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			panic(fmt.Sprintf("crowd: a body of plain values did not marshal: %v", err))
		}
		req.header.Set("Content-Type", "application/json")
		req.body = string(raw)
	}
	return req
}

// payRequest presses a button on a payment page, which is another site: none of our cookies go there.
func payRequest(page *url.URL, do string) request {
	return request{
		method: http.MethodPost, target: page.RequestURI(), origin: &url.URL{Scheme: page.Scheme, Host: page.Host},
		header: http.Header{
			"User-Agent": {userAgent}, "Accept": {"text/html"}, "Content-Type": {"application/x-www-form-urlencoded"},
			"Origin": {page.Scheme + "://" + page.Host}, "Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"navigate"},
		},
		body: "do=" + do,
	}
}

// readSeatMap returns the free seats, sorted.
func readSeatMap(body []byte) ([]string, error) {
	var m struct {
		Seats map[string]string `json:"seats"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	var free []string
	for seat, state := range m.Seats {
		if state == "AVAILABLE" {
			free = append(free, seat)
		}
	}
	slices.Sort(free)
	return free, nil
}

// choose picks n seats that stand together in the list where that can be; a third of the crowd wants the very first ones.
func (b *buyer) choose(free []string) []string {
	free = slices.DeleteFunc(slices.Clone(free), func(s string) bool { return b.taken[s] })
	n := min(b.wish.seats, len(free))
	if n == 0 {
		return nil
	}
	from := 0
	if b.rng.IntN(3) > 0 {
		from = b.rng.IntN(len(free) - n + 1)
	}
	return free[from : from+n]
}

// readHold reads an answer that says what the buyer holds, and until when at least.
func readHold(a answer, asked time.Time) (h holdAnswer, until time.Time, err error) {
	if err := json.Unmarshal(a.body, &h); err != nil {
		return h, until, err
	}
	if h.HoldID == "" || len(h.Seats) == 0 {
		return h, until, fmt.Errorf("crowd: a hold without an id or seats: %.100s", a.body)
	}
	return h, asked.Add(time.Duration(h.ExpiresInSeconds) * time.Second), nil
}

// checkoutPage reads where a payment page is.
func checkoutPage(body []byte) (*url.URL, error) {
	var c struct {
		URL string `json:"checkoutUrl"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
		return nil, fmt.Errorf("crowd: %q is no address of a payment page", c.URL)
	}
	return u, nil
}
