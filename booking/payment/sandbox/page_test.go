package sandbox

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/net/html"

	"ropeline/booking/payment"
)

// visit asks as a browser does that follows nothing, and returns the answer with its body read.
func visit(t *testing.T, method, to, kind, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

func form(t *testing.T, to string, values url.Values) (*http.Response, string) {
	t.Helper()
	return visit(t, http.MethodPost, to, "application/x-www-form-urlencoded", values.Encode())
}

func TestPage_IsReadableInBothLanguagesAndRunsNothing(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	o.Title = `Spring <script>alert(1)</script> Tour`
	page := s.started(t, o)
	for accept, want := range map[string]struct{ lang, amount, pay string }{
		"":                       {"en", "350,000 VND", "Pay"},
		"de-DE,vi;q=0.5":         {"en", "350,000 VND", "Pay"},
		"vi-VN,vi;q=0.9,en;q=.8": {"vi", "350.000 VND", "Thanh toán"},
	} {
		resp, body := visit(t, http.MethodGet, page.URL, "", "", "Accept-Language", accept)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		for _, part := range []string{`<html lang="` + want.lang + `"`, want.amount, ">" + want.pay + "</button>", "Spring &lt;script&gt;"} {
			if !strings.Contains(body, part) {
				t.Errorf("%q: no %q in\n%s", accept, part, body)
			}
		}
		if strings.Contains(body, "<script") {
			t.Errorf("%q: a script in\n%s", accept, body)
		}
		if _, err := html.Parse(strings.NewReader(body)); err != nil {
			t.Error(err)
		}
		csp := resp.Header.Get("Content-Security-Policy")
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(body)
		sum := sha256.Sum256([]byte(style[1]))
		if !strings.Contains(csp, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.Contains(csp, "default-src 'none'") {
			t.Errorf("policy %q is not of this page", csp)
		}
	}
	o = anOrder()
	o.Language = "vi"
	if _, body := visit(t, http.MethodGet, s.started(t, o).URL, "", "", "Accept-Language", "en"); !strings.Contains(body, `lang="vi"`) {
		t.Error("the shop's choice of language counts for nothing")
	}
}

func TestPage_HasTheSameWordsInBothLanguages(t *testing.T) {
	for _, state := range []string{open, paid, declined, closed, "unknown"} {
		if english.State[state] == "" || vietnamese.State[state] == "" {
			t.Errorf("no words for %q", state)
		}
	}
	en, vi := fields(t, english), fields(t, vietnamese)
	for name := range en {
		if en[name] == "" || vi[name] == "" {
			t.Errorf("no words for %s", name)
		}
	}
}

func fields(t *testing.T, w words) map[string]any {
	t.Helper()
	raw, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPage_SendsWhoPaidBackToTheShop(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	o.ReturnURL = "https://tickets.example.com/orders/7?lang=vi"
	page := s.started(t, o)
	resp, _ := visit(t, http.MethodGet, page.URL, "", "")
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://tickets.example.com;") {
		t.Errorf("policy %q keeps a browser from going back", csp)
	}
	for range 2 { // the second is a click too many
		resp, _ = form(t, page.URL, url.Values{"do": {"pay"}})
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != o.ReturnURL {
			t.Errorf("%d to %q", resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	if got := s.events(t); len(got) != 1 {
		t.Errorf("%d callbacks", len(got))
	}
}

func TestPage_GoesNowhereElse(t *testing.T) {
	s := newStand(t)
	for _, to := range []string{"", "/orders/7", "//evil.example", "javascript:alert(1)", "ftp://files.example/", "https://a.example;x/", "https://"} {
		o := anOrder()
		o.ReturnURL = to
		page := s.started(t, o)
		resp, body := visit(t, http.MethodGet, page.URL, "", "")
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self';") || strings.Contains(body, "<a ") {
			t.Errorf("%q: policy %q, page\n%s", to, csp, body)
		}
		resp, _ = form(t, page.URL, url.Values{"do": {"pay"}})
		back, err := resp.Location()
		if err != nil || resp.StatusCode != http.StatusSeeOther || back.String() != page.URL {
			t.Errorf("%q: %d to %v", to, resp.StatusCode, back)
		}
	}
}

func TestPage_SaysWhatBecameOfIt(t *testing.T) {
	s := newStand(t)
	o := anOrder()
	page := s.started(t, o)
	if err := s.provider.Close(t.Context(), payment.Ref{PaymentID: o.PaymentID}); err != nil {
		t.Fatal(err)
	}
	resp, body := form(t, page.URL, url.Values{"do": {"pay"}})
	if resp.StatusCode != http.StatusConflict || !strings.Contains(body, english.State[closed]) || strings.Contains(body, "<form") {
		t.Errorf("%d\n%s", resp.StatusCode, body)
	}
	late := anOrder()
	late.PayBy = late.PayBy.Add(-3600e9)
	if _, body = visit(t, http.MethodGet, s.started(t, late).URL, "", ""); !strings.Contains(body, english.Late) || !strings.Contains(body, "<form") {
		t.Errorf("an open page whose time is over:\n%s", body)
	}
	other := s.started(t, anOrder())
	resp, _ = form(t, other.URL, url.Values{"do": {"decline"}})
	if resp.StatusCode != http.StatusSeeOther {
		t.Errorf("decline: %d", resp.StatusCode)
	}
	if _, body = visit(t, http.MethodGet, other.URL, "", ""); !strings.Contains(body, english.State[declined]) {
		t.Errorf("declined:\n%s", body)
	}
	for _, id := range []string{uuid.NewString(), "7", "..%2f..%2fv1"} {
		if resp, body = visit(t, http.MethodGet, s.url+"/pay/"+id, "", ""); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, english.State["unknown"]) {
			t.Errorf("%s: %d\n%s", id, resp.StatusCode, body)
		}
	}
}

func TestPage_TakesJSONFromPrograms(t *testing.T) {
	s := newStand(t)
	page := s.started(t, anOrder())
	for _, bad := range []string{`{`, `{"do":"dance"}`, `{"do":"pay","how":"somehow"}`, `{"do":"pay","delay":"soon"}`, `{"do":"pay","delay":"-1s"}`, `{"do":"pay","delay":"2h"}`} {
		if resp, _ := visit(t, http.MethodPost, page.URL, "application/json", bad); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, resp.StatusCode)
		}
	}
	resp, body := visit(t, http.MethodPost, page.URL, "application/json", `{"do":"pay","how":"late","delay":"1ms"}`)
	var a account
	if err := json.Unmarshal([]byte(body), &a); err != nil || resp.StatusCode != http.StatusOK || a.Status != paid {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if got := s.events(t); len(got) != 1 || got[0].Kind != payment.Paid {
		t.Errorf("callbacks %+v", got)
	}
	if resp, _ := visit(t, http.MethodPost, page.URL, "application/json", `{"do":"decline"}`); resp.StatusCode != http.StatusConflict {
		t.Errorf("declining a paid page: %d", resp.StatusCode)
	}
	if resp, _ := visit(t, http.MethodPost, page.URL, "application/json", strings.Repeat(" ", mostBody)+"{}"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a long body: %d", resp.StatusCode)
	}
}
