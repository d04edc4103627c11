package web

import (
	"bytes"
	"html/template"
	"net/http"
	"strconv"
)

// ErrorView is one failure, told to a person.
type ErrorView struct {
	Status    int      // HTTP status of the answer
	Problem   string   // slug of the problem, as in the API: "upstream-down"; empty or unknown: by Status
	Room      string   // title of the room, any text; may be empty
	Languages []string // languages to say it in, in this order; empty or unknown ones only: all of [Languages]
	Retry     string   // path on this host that may work: a button goes there; empty or not such a path: no button
	Refresh   int      // seconds after which the browser asks again by itself; 0: never
}

// Error renders a small page that says in each language what happened and what to do. It says nothing of the
// request or of causes. Send it with no-store and [PlainCSP].
func Error(view ErrorView) []byte {
	type block struct {
		Lang, Title, Text, Retry string
	}
	var blocks []block
	for _, lang := range view.languages() {
		said := view.wording(words[lang])
		plain := words[lang].Plain
		again := plain["againYou"]
		if view.Refresh > 0 {
			again = plain["againSelf"]
		}
		blocks = append(blocks, block{lang, said.Title, fill(said.Text, "again", again), plain["retry"]})
	}
	if !localPath(view.Retry) {
		view.Retry = ""
	}
	refresh := ""
	if view.Refresh > 0 {
		refresh = strconv.Itoa(view.Refresh)
	}
	var page bytes.Buffer
	err := templates.ExecuteTemplate(&page, "error.html", map[string]any{
		"Status": view.Status, "Room": view.Room, "Blocks": blocks, "Retry": view.Retry, "Refresh": refresh,
		"Style": template.CSS(plainStyle),
	})
	if err != nil {
		// Only a broken template can do this, and each is run by the tests. The visitor still gets an answer.
		return []byte("<!doctype html><title>" + http.StatusText(view.Status) + "</title>")
	}
	return page.Bytes()
}

func (v ErrorView) languages() []string {
	var known []string
	for _, lang := range v.Languages {
		if _, ok := words[lang]; ok {
			known = append(known, lang)
		}
	}
	if len(known) == 0 {
		return Languages()
	}
	return known
}

// wording goes from the particular to the general: the problem, the status, the kind of status.
func (v ErrorView) wording(w lexicon) errorWording {
	for _, key := range []string{v.Problem, strconv.Itoa(v.Status)} {
		if said, ok := w.Errors[key]; ok {
			return said
		}
	}
	if v.Status >= 400 && v.Status < 500 {
		return w.Errors["400"]
	}
	return w.Errors["500"]
}
