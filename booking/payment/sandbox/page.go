package sandbox

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"ropeline/booking/payment"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// view is what the page shows.
type view struct {
	Words  words
	CSS    template.CSS
	Title  string // what is bought
	Amount string
	Open   bool
	Late   bool // open, but its time is over
	State  string
	Return string // where "back" leads; "" = nowhere
}

// showPage is GET /pay/{id}.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, err := s.payment(r)
	var shown Payment
	if err == nil {
		shown = *p
	}
	s.mu.Unlock()
	if err != nil {
		s.page(w, r, http.StatusNotFound, nil)
		return
	}
	s.page(w, r, http.StatusOK, &shown)
}

// wish is what is posted to a page, as a form or as JSON.
type wish struct {
	Do    string `json:"do"` // pay, decline
	How   How    `json:"how"`
	Delay string `json:"delay"` // of the callback, such as 2s
}

// postPage is POST /pay/{id}. A browser is sent to where the shop wants it, a program that posts JSON gets the state.
func (s *Server) postPage(w http.ResponseWriter, r *http.Request) {
	asked, asJSON, err := readWish(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p, err := s.grant(r, asked)
	switch {
	case errors.Is(err, errBody):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case asJSON && err != nil:
		http.Error(w, err.Error(), statusOf(err))
	case asJSON:
		reply(w, http.StatusOK, s.account(r, p))
	case errors.Is(err, errUnknown):
		s.page(w, r, http.StatusNotFound, nil)
	case err != nil: // the page ended before
		s.page(w, r, http.StatusConflict, p)
	default:
		to := p.ID().String() // this page
		if u, ok := returnURL(p.Order.ReturnURL); ok && p.Status == paid {
			to = u.String()
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// readWish reads what is posted; only a delay that is none is an error.
func readWish(r *http.Request) (asked wish, asJSON bool, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if asJSON = kind == "application/json"; asJSON {
		err = read(r, &asked)
		return asked, true, err
	}
	if r.ParseForm() != nil {
		return wish{}, false, errBody
	}
	return wish{Do: r.PostForm.Get("do"), How: How(r.PostForm.Get("how")), Delay: r.PostForm.Get("delay")}, false, nil
}

// grant does what is wished and returns the payment as it is then, also with errNotOpen.
func (s *Server) grant(r *http.Request, asked wish) (*Payment, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, errUnknown
	}
	var delay time.Duration
	if asked.Delay != "" {
		if delay, err = time.ParseDuration(asked.Delay); err != nil {
			return nil, errBody
		}
	}
	switch asked.Do {
	case "pay":
		_, err = s.Pay(id, asked.How, delay)
	case "decline":
		err = s.Decline(id, delay)
	default:
		return nil, errBody
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, unknown := s.find(id)
	if unknown != nil {
		return nil, unknown
	}
	now := *p
	return &now, err
}

// page writes the page of p, or the one of no payment.
func (s *Server) page(w http.ResponseWriter, r *http.Request, status int, p *Payment) {
	v := view{CSS: template.CSS(pageCSS), State: "unknown"}
	language, form := r.Header.Get("Accept-Language"), "'self'"
	if p != nil {
		if p.Order.Language != "" {
			language = p.Order.Language
		}
		v.Title, v.State, v.Open = p.Order.Title, p.Status, p.Status == open
		v.Amount = payment.Format(p.Order.Amount, p.Order.Currency, language)
		v.Late = v.Open && !s.cfg.Clock().Before(p.Order.PayBy)
		if u, ok := returnURL(p.Order.ReturnURL); ok {
			v.Return = u.String()
			form += " " + u.Scheme + "://" + u.Host // a browser asks this also of where a form is sent on to
		}
	}
	v.Words = wordsOf(language)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+styleHash+"'; form-action "+form+"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Vary", "Accept-Language")
	w.WriteHeader(status)
	_ = pageTemplate.Execute(w, v) // the client is gone
}

var styleHash = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

// plainHost is a host that means nothing else inside a header.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.\-\[\]:]+$`)

// returnURL parses where a customer goes afterwards: http or https, absolute, or nowhere.
func returnURL(raw string) (*url.URL, bool) {
	u, ok := absolute(raw)
	if !ok || !plainHost.MatchString(u.Host) {
		return nil, false
	}
	return u, true
}

// words of the page in one language.
type words struct {
	Lang, Name, Warning, Buy, Amount, Pay, Decline, Late, Back string
	State                                                      map[string]string
}

// wordsOf picks the language that stands first in a tag or an Accept-Language header, English if it is neither.
func wordsOf(language string) words {
	first, _, _ := strings.Cut(language, ",")
	first, _, _ = strings.Cut(first, ";")
	if payment.Vietnamese(strings.TrimSpace(first)) {
		return vietnamese
	}
	return english
}

//go:embed words.json
var wordsJSON []byte

var english, vietnamese = func() (words, words) {
	var all struct{ En, Vi words }
	if err := json.Unmarshal(wordsJSON, &all); err != nil {
		panic(err) // a mistake in an embedded file
	}
	return all.En, all.Vi
}()
