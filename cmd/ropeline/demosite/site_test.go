package demosite

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a site with a fast beat.
func serve(t *testing.T) (*Site, *httptest.Server) {
	t.Helper()
	site, err := New(Config{Rows: 2, Beat: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return site, server
}

// send makes a request as the room passes it on for visitor; "" is a request that came around the room.
func send(t *testing.T, server *httptest.Server, method, path, visitor string, form url.Values) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if visitor != "" {
		req.Header.Set("X-Ropeline-Visitor", visitor)
		req.Header.Set("X-Ropeline-Session", "session-"+visitor)
		req.Header.Set("X-Ropeline-Place", "17")
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestSite_PagesAnswer(t *testing.T) {
	_, server := serve(t)
	for path, want := range map[string]struct{ kind, part string }{
		"/":                    {"text/html", `href="/events/spring-tour/"`},
		"/assets/site.css":     {"text/css", "--accent"},
		"/assets/site.js":      {"text/javascript", "EventSource"},
		Poster:                 {"image/svg+xml", "<svg"},
		Event:                  {"text/html", "You were number <strong>17</strong>"},
		Event + "seats":        {"text/html", "Buy seat B10"},
		Event + "slow?for=1ms": {"text/plain", "1ms"},
	} {
		resp, body := send(t, server, http.MethodGet, path, "ann", nil)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), want.kind) || !strings.Contains(body, want.part) {
			t.Errorf("%s: %d %s, want 200 %s with %q", path, resp.StatusCode, resp.Header.Get("Content-Type"), want.kind, want.part)
		}
	}
}

func TestSite_CountsWhatCameWithoutASession(t *testing.T) {
	site, server := serve(t)
	send(t, server, http.MethodGet, "/", "", nil)
	send(t, server, http.MethodGet, Poster, "", nil)
	send(t, server, http.MethodGet, Event, "ann", nil)
	if got := site.Counts(); got.Visits != 1 || got.WithoutSession != 0 {
		t.Errorf("counts %+v, want one visit, none without a session", got)
	}
	send(t, server, http.MethodGet, Event+"seats", "", nil)
	send(t, server, http.MethodPost, Event+"finish", "", nil)
	if got := site.Counts(); got.Visits != 3 || got.WithoutSession != 2 {
		t.Errorf("counts %+v, want 3 visits, 2 without a session", got)
	}
}

func TestSite_SellsASeatOnce(t *testing.T) {
	site, server := serve(t)
	seatA1 := url.Values{"seat": {"A1"}}
	resp, _ := send(t, server, http.MethodPost, Event+"buy", "ann", seatA1)
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("buy: %d, want 303", resp.StatusCode)
	}
	receipt := resp.Header.Get("Location")
	if resp, body := send(t, server, http.MethodGet, receipt, "ann", nil); resp.StatusCode != http.StatusOK || !strings.Contains(body, "Seat A1 is yours") {
		t.Errorf("receipt: %d", resp.StatusCode)
	}
	if resp, _ := send(t, server, http.MethodGet, receipt, "bob", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("receipt of another: %d, want 404", resp.StatusCode)
	}
	if resp, _ := send(t, server, http.MethodPost, Event+"buy", "ann", seatA1); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the same purchase again: %d, want 303", resp.StatusCode)
	}
	if resp, _ := send(t, server, http.MethodPost, Event+"buy", "bob", seatA1); resp.StatusCode != http.StatusConflict {
		t.Errorf("a sold seat: %d, want 409", resp.StatusCode)
	}
	if resp, body := send(t, server, http.MethodPost, Event+"buy", "bob", url.Values{"seat": {"<b>"}}); resp.StatusCode != http.StatusBadRequest || strings.Contains(body, "<b>") {
		t.Errorf("no seat: %d, want 400 and no markup back", resp.StatusCode)
	}
	if got := site.Counts().Sold; got != 1 {
		t.Errorf("sold %d, want 1", got)
	}
}

func TestSeats_FiftyRacersForOne(t *testing.T) {
	hall := newSeats(1)
	var won atomic.Int64
	var racers sync.WaitGroup
	for i := range 50 {
		racers.Go(func() {
			if hall.buy("A1", string(rune('a'+i))) == nil {
				won.Add(1)
			}
		})
	}
	racers.Wait()
	if won.Load() != 1 || hall.left() != seatsPerRow-1 {
		t.Errorf("%d won, %d seats left; want 1 and %d", won.Load(), hall.left(), seatsPerRow-1)
	}
}

func TestSite_SeatsAsJSON(t *testing.T) {
	_, server := serve(t)
	send(t, server, http.MethodPost, Event+"buy", "ann", url.Values{"seat": {"A2"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+Event+"seats", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Left  int
		Seats []seat
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Left != 19 || len(got.Seats) != 20 || !got.Seats[1].Sold || got.Seats[0].Sold {
		t.Errorf("got %+v", got)
	}
}

func TestSite_FinishEndsTheSession(t *testing.T) {
	site, server := serve(t)
	resp, body := send(t, server, http.MethodPost, Event+"finish", "ann", nil)
	if got := resp.Header.Get("X-Ropeline-Session"); got != "end" || !strings.Contains(body, "Thank you") {
		t.Errorf("X-Ropeline-Session = %q, want end", got)
	}
	if got := site.Counts().Finished; got != 1 {
		t.Errorf("finished %d, want 1", got)
	}
	if resp, _ := send(t, server, http.MethodGet, Event+"finish", "ann", nil); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET finish: %d, want 405", resp.StatusCode)
	}
}

func TestSite_LiveFeedStreams(t *testing.T) {
	_, server := serve(t)
	resp, err := server.Client().Get(server.URL + Event + "live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type = %q", got)
	}
	messages := 0
	for lines := bufio.NewScanner(resp.Body); messages < 3 && lines.Scan(); {
		if lines.Text() == `data: {"left":20}` {
			messages++
		}
	}
	if messages != 3 {
		t.Errorf("%d messages, want 3", messages)
	}
}

func TestSite_SlowRefusesOddTimes(t *testing.T) {
	_, server := serve(t)
	for _, d := range []string{"x", "-1s", "31s"} {
		if resp, _ := send(t, server, http.MethodGet, Event+"slow?for="+d, "ann", nil); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("for=%s: %d, want 400", d, resp.StatusCode)
		}
	}
}

func TestNew_RefusesOddHalls(t *testing.T) {
	for _, cfg := range []Config{{Rows: 27}, {Rows: -1}, {Beat: -time.Second}} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: err = %v, want ErrConfig", cfg, err)
		}
	}
}
