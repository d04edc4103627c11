package proxy

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"ropeline/queue"
)

func TestPage_CopyForCaches(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.crowded()
	b := h.browser()
	page := "/_ropeline/rooms/" + h.room() + "/page"
	r := b.do("GET", page, "").want(200)
	if r.Header.Get("Cache-Control") != "public, max-age=60" || r.Header.Get("ETag") == "" || r.Header.Get("Vary") != "Accept-Encoding" || len(r.Cookies()) != 0 {
		t.Errorf("headers %v", r.Header)
	}
	if gated := b.open("/").parked(); gated.body != r.body {
		t.Error("the page at a gated URL is another one")
	}
	for _, tag := range []string{r.Header.Get("ETag"), `"x", ` + r.Header.Get("ETag"), strings.TrimPrefix(r.Header.Get("ETag"), "W/")} {
		if got := b.do("GET", page, "", "If-None-Match: "+tag).want(304); got.body != "" || got.Header.Get("ETag") == "" || got.Header.Get("Cache-Control") != "public, max-age=60" {
			t.Errorf("%s: %v", tag, got.Header)
		}
	}
	b.do("GET", page, "", `If-None-Match: "x"`).want(200)
	head := b.do("HEAD", page, "").want(200)
	if head.body != "" || head.ContentLength != int64(len(r.body)) {
		t.Errorf("HEAD: %d bytes told, %d sent, want %d and 0", head.ContentLength, len(head.body), len(r.body))
	}
	packed := b.do("GET", page, "", "Accept-Encoding: br, gzip;q=0.5").want(200)
	zip, err := gzip.NewReader(strings.NewReader(packed.body))
	if err != nil {
		t.Fatal(err)
	}
	if open, err := io.ReadAll(zip); err != nil || string(open) != r.body || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("packed: %v, %v", err, packed.Header)
	}
	if len(packed.body) > 20<<10 {
		t.Errorf("%d bytes packed, at most 20 KB are allowed", len(packed.body))
	}
	for _, no := range []string{"gzip;q=0", "gzip; q=0.0", "br", "identity", "xgzip"} {
		if got := b.do("GET", page, "", "Accept-Encoding: "+no).want(200); got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", no, got.Header)
		}
	}
}

func TestWait_TheJourneyWithoutJavaScript(t *testing.T) {
	rm := roomOn(hall)
	rm.Entry = "/tour/"
	h := newHouse(t, houseConfig{rooms: []Room{rm}})
	h.crowded()
	b := h.browser()
	wait := waitPath(h.room())
	if r := b.open(wait).want(200); r.Header.Get("Refresh") != "" || !strings.Contains(r.body, "<form") {
		t.Errorf("without a place: %v, want a form to join and nothing that asks again", r.Header)
	}
	h.browser().join()
	b.do("POST", b.api("/queue"), "", "Content-Type: application/x-www-form-urlencoded", "Origin: http://"+hall).want(303)
	h.eventually("the snapshot to count both", func() bool { return h.line().Snapshot().Waiting == 2 })
	r := b.open(wait, "Accept-Language: en").want(200)
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Header.Get("Refresh") == "" || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(r.body, "<script") {
		t.Errorf("headers %v", r.Header)
	}
	if vi := b.open(wait, "Accept-Language: vi-VN,vi;q=0.9").want(200); !strings.Contains(vi.body, `lang="vi"`) {
		t.Error("not in Vietnamese")
	}
	h.roomy()
	h.eventually("the turn", func() bool { r = b.open(wait); return b.accessCookie() != "" })
	if !strings.Contains(r.body, "/tour/") || r.Header.Get("Refresh") != "" {
		t.Errorf("admitted: %v, want a way to /tour/", r.Header)
	}
	b.open("/tour/").seen()
	if r := b.open(wait).want(200); !strings.Contains(r.body, "/tour/") {
		t.Error("admitted and back: no way in")
	}
}

func TestWait_HandsOutTheFullSession(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	b := h.browser()
	b.open("/").seen() // provisional
	first := b.accessCookie()
	b.open(waitPath(h.room())).want(200)
	claims, err := h.tokens.Verify(h.room(), b.accessCookie())
	if err != nil || claims.Provisional || b.accessCookie() == first {
		t.Errorf("after the waiting page the cookie says %+v, %v; want the full session", claims, err)
	}
}

func TestWait_ClosedRoomSaysSo(t *testing.T) {
	h := newHouse(t, houseConfig{rooms: []Room{roomOn(hall)}})
	h.set(func(s *queue.Settings) { s.Mode, s.Reason = queue.Closed, "Over <b>now</b>" })
	r := h.browser().open(waitPath(h.room())).want(200)
	if !strings.Contains(r.body, "Over &lt;b&gt;now") || r.Header.Get("Refresh") != "" {
		t.Errorf("%v\n%s", r.Header, r.body)
	}
	h.set(func(s *queue.Settings) { s.Mode, s.OpensAt = queue.Open, time.Now().Add(time.Hour) })
	b := h.browser()
	b.join().want(201)
	if r := b.open(waitPath(h.room())).want(200); r.Header.Get("Refresh") == "" {
		t.Errorf("before the opening: %v", r.Header)
	}
}
