package demosite

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

//go:embed static pages
var files embed.FS

// Event is the path of the event: what a room in front of the site gates. [Poster] below it may be public.
const (
	Event  = "/events/spring-tour/"
	Poster = Event + "poster.svg"
)

// Config tunes a Site. Each field's zero value selects its default.
type Config struct {
	Title  string        // of the event; default "Spring Tour"
	Rows   int           // rows of ten seats, 1 to 26; default 12
	Beat   time.Duration // between two messages of the live feed; default 1s
	Logger *slog.Logger  // default: discards
}

// Site is the concert site, an http.Handler that is safe for concurrent use.
type Site struct {
	cfg   Config
	seats *seats
	pages *template.Template
	mux   *http.ServeMux

	visits, bare, finished atomic.Int64
}

// Counts are what a Site has seen since it was made.
type Counts struct {
	Visits         int64 `json:"visits"`         // requests for gated pages
	WithoutSession int64 `json:"withoutSession"` // of these, those that came without X-Ropeline-Session
	Sold           int64 `json:"sold"`           // seats
	Finished       int64 `json:"finished"`       // sessions the site ended
}

// ErrConfig means that a Config has a value no site can have.
var ErrConfig = errors.New("demosite: bad configuration")

// New returns a site with all its seats, or [ErrConfig].
func New(cfg Config) (*Site, error) {
	if cfg.Title == "" {
		cfg.Title = "Spring Tour"
	}
	if cfg.Rows == 0 {
		cfg.Rows = 12
	}
	if cfg.Beat == 0 {
		cfg.Beat = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Rows < 1 || cfg.Rows > 26 || cfg.Beat < 0 {
		return nil, fmt.Errorf("%w: rows %d of 1 to 26, beat %v", ErrConfig, cfg.Rows, cfg.Beat)
	}
	pages, err := template.ParseFS(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("demosite: parse pages: %w", err)
	}
	s := &Site{cfg: cfg, seats: newSeats(cfg.Rows), pages: pages}
	if s.mux, err = s.routes(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Site) routes() (*http.ServeMux, error) {
	static, err := fs.Sub(files, "static")
	if err != nil {
		return nil, fmt.Errorf("demosite: static files: %w", err)
	}
	assets := http.FileServerFS(static)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.start)
	mux.Handle("GET /assets/", http.StripPrefix("/assets", assets))
	mux.HandleFunc("GET "+Poster, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		http.ServeFileFS(w, r, static, "poster.svg")
	})
	for pattern, page := range map[string]http.HandlerFunc{
		"GET {$}":     s.event,
		"GET seats":   s.seatList,
		"POST buy":    s.buy,
		"GET receipt": s.receipt,
		"GET live":    s.live,
		"GET slow":    s.slow,
		"POST finish": s.finish,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+Event+path, s.gated(page))
	}
	return mux, nil
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Counts returns what the site has seen so far.
func (s *Site) Counts() Counts {
	return Counts{
		Visits: s.visits.Load(), WithoutSession: s.bare.Load(), Sold: int64(s.seats.sold()), Finished: s.finished.Load(),
	}
}

// gated counts the requests for a page behind the room. A site alone, without a room in front, still answers.
func (s *Site) gated(page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.visits.Add(1)
		if r.Header.Get("X-Ropeline-Session") == "" {
			s.bare.Add(1)
			s.cfg.Logger.Warn("request without a session", "path", r.URL.Path)
		}
		w.Header().Set("Cache-Control", "no-store")
		page(w, r)
	})
}
