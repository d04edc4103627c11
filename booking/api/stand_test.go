package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"ropeline/booking"
)

// stand is the API over a fake core. Tokens in it read "room/customer". Each answer that it sees is held against the OpenAPI file.
type stand struct {
	t    *testing.T
	core *fakeCore
	api  *API
	log  *bytes.Buffer
}

const serviceToken = "service-token-of-the-tests"

func newStand(t *testing.T, change ...func(*Config)) *stand {
	t.Helper()
	s := &stand{t: t, core: newFakeCore(), log: &bytes.Buffer{}}
	cfg := Config{
		Identify: func(r *http.Request) (booking.Admission, bool) {
			room, customer, ok := strings.Cut(r.Header.Get("X-Queue-Token"), "/")
			return booking.Admission{Room: room, Customer: customer, Session: "session of " + customer, Channels: 3}, ok
		},
		Secret: []byte("secret of the tests"), ServiceToken: serviceToken, ProviderNames: []string{"sandbox", "stripe"},
		Logger: slog.New(slog.NewTextHandler(s.log, nil)), Metrics: prometheus.NewRegistry(),
	}
	for _, c := range change {
		c(&cfg)
	}
	s.api = New(s.core, cfg)
	return s
}

// reply is an answer that was read.
type reply struct {
	*httptest.ResponseRecorder
	t    *testing.T
	body map[string]any
}

// do sends a request. header has names and values in turn.
func (s *stand) do(method, path, body string, header ...string) reply {
	s.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	got := reply{ResponseRecorder: w, t: s.t}
	text := w.Body.Bytes()
	if w.Header().Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(bytes.NewReader(text))
		if err == nil {
			text, err = io.ReadAll(zip)
		}
		if err != nil {
			s.t.Fatalf("%s %s: gzip: %v", method, path, err)
		}
	}
	if strings.Contains(w.Header().Get("Content-Type"), "json") && len(text) > 0 {
		if err := json.Unmarshal(text, &got.body); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	fitsOpenAPI(s.t, r, got)
	return got
}

func (r reply) is(status int, code string) reply {
	r.t.Helper()
	if r.Code != status || code != "" && r.body["code"] != code {
		r.t.Fatalf("got %d %v, want %d %s: %s", r.Code, r.body["code"], status, code, r.Body)
	}
	return r
}

func (r reply) has(member string, want any) reply {
	r.t.Helper()
	if got, _ := json.Marshal(r.body[member]); string(got) != string(must(json.Marshal(want))) {
		r.t.Errorf("%s: got %s, want %v", member, got, want)
	}
	return r
}

func (r reply) header(name, want string) reply {
	r.t.Helper()
	if got := r.Header().Get(name); got != want {
		r.t.Errorf("%s: got %q, want %q", name, got, want)
	}
	return r
}

func (r reply) text(member string) string {
	s, _ := r.body[member].(string)
	return s
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An is a visitor whom the room of event 42 let in.
const an = "spring-tour/an"

// held is a hold of F5 by An.
func (s *stand) held(seats ...string) string {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"seats": append(seats, "F5")})
	return s.do("POST", "/v1/events/42/holds", string(body), "X-Queue-Token", an).is(201, "").text("holdId")
}

// becomes changes what the core knows of a booking.
func (s *stand) becomes(id string, status booking.Status) {
	key := uuid.MustParse(id)
	b := s.core.bookings[key]
	b.Status = status
	s.core.bookings[key] = b
}
