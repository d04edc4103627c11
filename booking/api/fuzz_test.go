package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func FuzzHold_AnyBodyIsHeldOrRefused(f *testing.F) {
	for _, body := range []string{oneSeat, `{"seats":[{"seat":"F5","ticketType":null}],"replaces":""}`, `{"seats":[[]]}`, `{"customerId":{}}`, `nul`, ``} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := newStand(t)
		got := s.do("POST", "/v1/events/42/holds", body, "X-Queue-Token", an)
		switch got.Code {
		case 201, 400, 403, 413, 422:
		default:
			t.Errorf("got %d %s", got.Code, got.Body)
		}
		for _, h := range s.core.holds {
			if n := len(h.Choices); n < 1 || n > 4 || h.Customer != "an" {
				t.Errorf("the core was asked %+v", h)
			}
		}
	})
}

func FuzzRoute_NoPathReachesAHoldWithoutAToken(f *testing.F) {
	for _, path := range []string{"/v1/events/42/holds", "/V1/events/42/holds", "/v1//events/42/holds", "/v1/events/42/holds/../seats", "/events/42/h%6flds", "/holds/x/extend"} {
		f.Add("POST", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		s := newStand(t)
		r := &http.Request{Method: method, URL: u, Header: http.Header{}, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, r)
		for _, h := range s.core.holds {
			if h.Event == 42 {
				t.Errorf("%s %s held %+v", method, path, h)
			}
		}
		if strings.Contains(strings.ToLower(u.Path), "/holds") && w.Code < 400 && len(s.core.holds) == 0 {
			t.Errorf("%s %s: got %d without a token", method, path, w.Code)
		}
	})
}
