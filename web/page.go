package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
)

//go:embed queue plain words
var files embed.FS

var (
	// ErrRoom means that a room's id is not 1 to 64 of [a-z0-9-].
	ErrRoom = errors.New("web: room id is not [a-z0-9-]{1,64}")
	// ErrEntry means that a room's entry is not a path on the same host.
	ErrEntry = errors.New("web: entry is not a relative path that begins with one /")
	// ErrLanguage means that there are no words in one of a room's languages.
	ErrLanguage = errors.New("web: no words in this language")
)

// Room is what the pages say about a waiting room.
type Room struct {
	ID        string   // [a-z0-9-]{1,64}
	Title     string   // any text; empty: the id
	Languages []string // "vi" and "en", the first is shown where the browser asks for neither; empty: both
	Entry     string   // path on this host, with one leading /, to which an admitted visitor goes; empty: "/"
}

// Page is the queue page of one room, ready to be sent. It never changes; make a new one when the room does.
type Page struct {
	Body []byte // HTML in UTF-8
	Gzip []byte // Body, compressed
	ETag string // for Body and Gzip alike, hence weak; quoted as the header wants it
	CSP  string // the Content-Security-Policy that goes with it
}

// NewPage renders the queue page of a room. The same room gives the same bytes, in any process.
// It returns [ErrRoom], [ErrEntry] or [ErrLanguage] for a room that it can't show.
func NewPage(room Room) (*Page, error) {
	room, err := room.checked()
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "page.html", queueView(room)); err != nil {
		return nil, fmt.Errorf("render the queue page of %s: %w", room.ID, err)
	}
	packed, err := compress(body.Bytes())
	if err != nil {
		return nil, fmt.Errorf("compress the queue page of %s: %w", room.ID, err)
	}
	sum := sha256.Sum256(body.Bytes())
	return &Page{
		Body: body.Bytes(),
		Gzip: packed,
		ETag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`,
		CSP: policy("script-src "+hashSource(queueScript), "style-src "+hashSource(queueStyle),
			"connect-src 'self'", "img-src data:"),
	}, nil
}

// PlainCSP is the Content-Security-Policy of what [Wait] and [Error] write.
func PlainCSP() string {
	return policy("style-src "+hashSource(plainStyle), "img-src data:")
}

// policy forbids everything but the directives given and forms to the same origin.
func policy(directives ...string) string {
	all := append([]string{"default-src 'none'"}, directives...)
	return strings.Join(append(all, "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"), "; ")
}

// hashSource is the CSP source expression that allows exactly this inline text (CSP Level 3, section 2.3.1).
func hashSource(inline string) string {
	sum := sha256.Sum256([]byte(inline))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// checked fills in defaults and refuses what can't be shown.
func (r Room) checked() (Room, error) {
	if !validID(r.ID) {
		return r, fmt.Errorf("room %q: %w", r.ID, ErrRoom)
	}
	if r.Title == "" {
		r.Title = r.ID
	}
	if r.Entry == "" {
		r.Entry = "/"
	}
	if !localPath(r.Entry) {
		return r, fmt.Errorf("room %s: entry %q: %w", r.ID, r.Entry, ErrEntry)
	}
	if len(r.Languages) == 0 {
		r.Languages = Languages()
	}
	for _, lang := range r.Languages {
		if _, ok := words[lang]; !ok {
			return r, fmt.Errorf("room %s: language %q: %w", r.ID, lang, ErrLanguage)
		}
	}
	return r, nil
}

func validID(id string) bool {
	odd := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, odd)
}

// localPath reports whether a browser will take path for one on the same host: one leading slash, no
// backslash (which browsers read as a slash), and no control byte or space (which they strip).
func localPath(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return false
	}
	if strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f }) {
		return false
	}
	_, err := url.Parse(path)
	return err == nil
}

// queueData is what the script of the queue page knows of its room.
type queueData struct {
	Room      string                       `json:"room"`
	Title     string                       `json:"title"`
	Entry     string                       `json:"entry"`
	Languages []string                     `json:"languages"`
	Words     map[string]map[string]string `json:"words"`
}

func queueView(room Room) map[string]any {
	data := queueData{Room: room.ID, Title: room.Title, Entry: room.Entry, Languages: room.Languages,
		Words: map[string]map[string]string{}}
	for _, lang := range room.Languages {
		data.Words[lang] = maps.Clone(words[lang].Page)
		data.Words[lang]["name"] = words[lang].Name
	}
	return map[string]any{
		"Room":   room,
		"Lang":   room.Languages[0],
		"W":      words[room.Languages[0]].Page,
		"Plain":  plainWords(room.Languages),
		"Data":   data,
		"Style":  template.CSS(queueStyle),
		"Script": template.JS(queueScript),
	}
}

func compress(body []byte) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := zip.Write(body); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

var (
	queueStyle  = inline("plain/base.css", "queue/page.css")
	queueScript = inline("queue/wording.js", "queue/page.js")
	plainStyle  = inline("plain/base.css", "plain/plain.css")
	templates   = template.Must(template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"hasLanguage": slices.Contains[[]string],
	}).ParseFS(files, "queue/page.html", "plain/*.html"))
)

// inline joins sources for a <style> or <script>, without the comment lines and indentation that readers of
// the repository need and two million phones don't. It knows only comments that fill whole lines, so the
// sources have no others, and no strings over several lines.
func inline(names ...string) string {
	var out strings.Builder
	out.WriteByte('\n')
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			panic(err) // an embedded file: a build without it can't happen
		}
		for line := range strings.Lines(string(source)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*") && strings.HasSuffix(line, "*/") {
				continue
			}
			out.WriteString(line)
			out.WriteByte('\n')
		}
	}
	return out.String()
}
