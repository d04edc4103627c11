package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func tour() Room {
	return Room{ID: "spring-tour", Title: "Spring Tour", Languages: []string{"vi", "en"}, Entry: "/events/spring-tour/"}
}

func newPage(t *testing.T, room Room) *Page {
	t.Helper()
	page, err := NewPage(room)
	if err != nil {
		t.Fatalf("NewPage(%+v): %v", room, err)
	}
	return page
}

func TestPage_IsTheSameBytesEveryTime(t *testing.T) {
	one, other := newPage(t, tour()), newPage(t, tour())
	if !bytes.Equal(one.Body, other.Body) || !bytes.Equal(one.Gzip, other.Gzip) || one.ETag != other.ETag || one.CSP != other.CSP {
		t.Error("two renderings of one room differ")
	}
	renamed := tour()
	renamed.Title = "Autumn Tour"
	if newPage(t, renamed).ETag == one.ETag {
		t.Error("another title has the same ETag")
	}
}

func TestPage_IsSmallAndGzipHoldsTheSame(t *testing.T) {
	page := newPage(t, tour())
	if most := 20 * 1024; len(page.Gzip) >= most {
		t.Errorf("compressed page is %d bytes, want under %d", len(page.Gzip), most)
	}
	reader, err := gzip.NewReader(bytes.NewReader(page.Gzip))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, page.Body) {
		t.Errorf("Gzip unpacks to %d bytes (%v), want Body's %d", len(got), err, len(page.Body))
	}
}

// A policy of another text would leave the page bare, so the hashes are taken from the page as a browser reads it.
func TestPage_PolicyNamesItsInlinePartsAndNothingElse(t *testing.T) {
	page := newPage(t, tour())
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllSubmatch(page.Body, -1)
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(page.Body, -1)
	if len(style) != 1 || len(script) != 1 {
		t.Fatalf("got %d styles and %d scripts, want one of each", len(style), len(script))
	}
	want := "default-src 'none'; script-src " + hashSource(string(script[0][1])) + "; style-src " + hashSource(string(style[0][1])) +
		"; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if page.CSP != want {
		t.Errorf("CSP:\n got %s\nwant %s", page.CSP, want)
	}
}

func TestPage_FetchesNothing(t *testing.T) {
	body := string(newPage(t, tour()).Body)
	for _, outside := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"|url\(|@import|//[a-z]+\.[a-z]`).FindAllString(body, -1) {
		if strings.HasPrefix(outside, `href="/`) || strings.HasPrefix(outside, `action="/_ropeline/`) ||
			strings.HasPrefix(outside, `href="data:`) || strings.HasPrefix(outside, `//www.w3`) {
			continue
		}
		t.Errorf("the page refers to %s", outside)
	}
	for _, want := range []string{`<meta name="robots" content="noindex">`, `<meta name="referrer" content="no-referrer">`,
		`<form method="post" action="/_ropeline/events/spring-tour/queue">`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestPage_TitleIsTextWhateverItHolds(t *testing.T) {
	room := tour()
	room.Title = `</script></title><img src=x onerror=alert(1)><!--<script> "it's" & {{.}} ` + "\u2028`${1}`"
	body := string(newPage(t, room).Body)
	if strings.Contains(body, "<img") || strings.Contains(body, "<!--") {
		t.Error("the title became markup")
	}
	if got := strings.Count(body, "</script>"); got != 2 {
		t.Errorf("got %d ends of scripts, want 2", got)
	}
	block := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(body)
	var data queueData
	if err := json.Unmarshal([]byte(block[1]), &data); err != nil || data.Title != room.Title {
		t.Errorf("the script is told %q (%v), want %q", data.Title, err, room.Title)
	}
}

func TestPage_KnowsOnlyTheRoomsLanguages(t *testing.T) {
	room := tour()
	room.Languages = []string{"en"}
	body := string(newPage(t, room).Body)
	if !strings.Contains(body, `<html lang="en">`) || strings.Contains(body, "Xếp hàng") {
		t.Error("an English room has Vietnamese words, or is not marked as English")
	}
	if body := string(newPage(t, Room{ID: "a"}).Body); !strings.Contains(body, `<html lang="vi">`) || !strings.Contains(body, "<h1>a</h1>") {
		t.Error("a room with an id alone does not get its defaults")
	}
}

func TestPage_RefusesRoomsItCantShow(t *testing.T) {
	for _, test := range []struct {
		change func(*Room)
		want   error
	}{
		{func(r *Room) { r.ID = "" }, ErrRoom},
		{func(r *Room) { r.ID = "Spring" }, ErrRoom},
		{func(r *Room) { r.ID = "a/b" }, ErrRoom},
		{func(r *Room) { r.ID = strings.Repeat("a", 65) }, ErrRoom},
		{func(r *Room) { r.Entry = "events/" }, ErrEntry},
		{func(r *Room) { r.Entry = "//evil.example" }, ErrEntry},
		{func(r *Room) { r.Entry = `/\evil.example` }, ErrEntry},
		{func(r *Room) { r.Entry = "/\t/evil.example" }, ErrEntry},
		{func(r *Room) { r.Entry = "javascript:alert(1)" }, ErrEntry},
		{func(r *Room) { r.Languages = []string{"en", "xx"} }, ErrLanguage},
	} {
		room := tour()
		test.change(&room)
		if _, err := NewPage(room); !errors.Is(err, test.want) {
			t.Errorf("NewPage(%+v): got %v, want %v", room, err, test.want)
		}
		if err := Wait(io.Discard, WaitView{Room: room}); !errors.Is(err, test.want) {
			t.Errorf("Wait with %+v: got %v, want %v", room, err, test.want)
		}
	}
}

// inline drops comments by line alone: a source that has others, or a string over several lines, would be cut.
func TestPage_SourcesSuitTheirShortening(t *testing.T) {
	for _, name := range []string{"plain/base.css", "plain/plain.css", "queue/page.css", "queue/page.js", "queue/wording.js"} {
		source, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "`") {
			t.Errorf("%s has a template string", name)
		}
		lines := slices.Collect(strings.Lines(string(source)))
		for i, line := range lines {
			if strings.Contains(line, "/*") != strings.Contains(line, "*/") {
				t.Errorf("%s:%d: a comment over several lines", name, i+1)
			}
		}
	}
	for _, script := range []string{queueScript, queueStyle, plainStyle} {
		if strings.Contains(script, "</") || strings.Contains(script, "<!--") {
			t.Error("an inline part would end its element")
		}
	}
}
