package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"ropeline/booking"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Parse(pageSource))

// pageCSP lets a page show itself and nothing else.
var pageCSP = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src data:; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// pageView is an event as a person reads it, or what went wrong.
type pageView struct {
	W             pageWords
	Name, Problem string
	When, Hall    string
	Sales         string // whether it is on sale, or from when
	Free, Of      string // seats; "" = not known
	Limits        []string
	Prices        []pagePrice
	Seats         string // path of the seat map; "" = none
	Style         template.CSS
}

type pagePrice struct{ Tier, TicketType, Price string }

// showPage shows the event to a person; a program gets what it gets without the slash.
func (a *API) showPage(q *request) error {
	if q.base != "" || !q.wantsPage() {
		return a.showEvent(q)
	}
	q.w.Header().Set("Vary", "Accept, Sec-Fetch-Mode, Accept-Language")
	w := wordsFor(q.Header.Get("Accept-Language"))
	e, err := q.event()
	if errors.Is(err, booking.ErrNoEvent) {
		return q.sendPage(http.StatusNotFound, pageView{W: w, Name: w.NoEvent, Problem: w.NoEventHelp})
	}
	if err != nil {
		return err
	}
	view := pageOf(e, w, a.cfg.Now())
	view.Seats = "/" + q.words.eventWord() + "s/" + q.arg + "/seats"
	if l, err := a.core.Layout(q.Context(), e.ID); err == nil && l != nil {
		view.Hall = l.Name
	}
	// Without the map the page still says the rest.
	if m, err := a.core.SeatMap(q.Context(), e.ID, false); err == nil {
		view.Free, view.Of = w.number(m.Free), w.number(m.Free+m.Held+m.Sold)
	}
	return q.sendPage(http.StatusOK, view)
}

func pageOf(e *booking.Event, w pageWords, now time.Time) pageView {
	view := pageView{W: w, Name: e.Name, When: w.when(e.StartsAt, e.Zone)}
	switch {
	case e.Status == "CANCELLED":
		view.Sales = w.Cancelled
	case e.Status == "PAUSED":
		view.Sales = w.Paused
	case e.Status != "ON_SALE" || !e.ClosesAt.IsZero() && !now.Before(e.ClosesAt):
		view.Sales = w.Closed
	case now.Before(e.OpensAt):
		view.Sales = fmt.Sprintf(w.Opens, w.when(e.OpensAt, e.Zone))
	case !e.ClosesAt.IsZero():
		view.Sales = fmt.Sprintf(w.OnSaleUntil, w.when(e.ClosesAt, e.Zone))
	default:
		view.Sales = w.OnSale
	}
	view.Limits = append(view.Limits, fmt.Sprintf(w.MaxSeats, e.MaxSeats))
	if e.CustomerCap > 0 {
		view.Limits = append(view.Limits, fmt.Sprintf(w.Cap, e.CustomerCap))
	}
	view.Limits = append(view.Limits, fmt.Sprintf(w.HoldFor, w.duration(e.HoldTTL)))
	for _, p := range e.Prices {
		view.Prices = append(view.Prices, pagePrice{p.Tier, p.TicketType, priceText(booking.Money{Amount: p.Amount, Currency: e.Currency}, w.Groups, w.Point)})
	}
	return view
}

func (q *request) sendPage(status int, view pageView) error {
	view.Style = template.CSS(pageStyle)
	var b bytes.Buffer
	if err := page.Execute(&b, view); err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pageCSP)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Language", view.W.Lang)
	q.w.send(status, "text/html; charset=utf-8", b.Bytes(), q.Method == http.MethodHead)
	return nil
}
