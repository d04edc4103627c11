package web

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

// WaitView is one visitor's place at one moment, for a browser without JavaScript.
type WaitView struct {
	Room    Room
	Lang    string // one of Room.Languages, see [Language]; empty: the first
	State   string // before_opening waiting admitted paused closed full holding expired; empty: no place, join first
	Number  int64  // place number, from 1; 0: no place, so that nothing is kept and there is nothing to leave
	Ahead   int64  // people before it; negative: unknown. Looked at only while waiting, paused or holding
	ETALow  time.Duration
	ETAHigh time.Duration // both zero: unknown
	OpensAt time.Time     // zero: unknown; shown in its own location
	Reason  string        // why the room is paused or closed, in the organizer's words; may be empty
	Refresh int           // seconds after which the page asks again; 0: never. The same as the header the caller sends
	Now     time.Time     // time of this answer; zero: not shown
}

// Wait writes the waiting page for a browser without JavaScript: state, people ahead, wait, place number and
// a form to leave. It is personal: send it with no-store, [PlainCSP] and, if Refresh is set, a Refresh
// header of as many seconds. An admitted visitor gets a link to the room's entry, and is taken there.
//
// It returns the errors of [NewPage] for a room it can't show, else those of w.
func Wait(w io.Writer, view WaitView) error {
	room, err := view.Room.checked()
	if err != nil {
		return err
	}
	view.Room = room
	if _, ok := words[view.Lang]; !ok {
		view.Lang = room.Languages[0]
	}
	if err := templates.ExecuteTemplate(w, "wait.html", view.fields()); err != nil {
		return fmt.Errorf("write the waiting page of %s: %w", room.ID, err)
	}
	return nil
}

func (v WaitView) fields() map[string]any {
	w := words[v.Lang]
	fields := map[string]any{
		"Room": v.Room, "Lang": v.Lang, "State": v.State, "Reason": v.Reason, "W": w.Page, "P": w.Plain,
		"Style": template.CSS(plainStyle), "Refresh": v.refresh(),
		"Heading": v.heading(w), "Text": v.text(w),
		"About": "", "People": "", "PeopleLabel": "", "Wait": "", "Number": "", "OpensAt": "", "Now": "",
		"InLine": v.inLine(), "Refreshing": "",
	}
	if v.Refresh > 0 {
		fields["Refreshing"] = fill(w.Plain["refreshing"], "n", fmt.Sprint(v.Refresh))
	}
	if v.hasAhead() {
		// "about" stands smaller before the number, as on the page with a script.
		text := peopleText(v.Ahead, v.Lang)
		cut := strings.LastIndexByte(text, ' ') + 1
		fields["About"], fields["People"] = strings.TrimSpace(text[:cut]), text[cut:]
		fields["PeopleLabel"] = w.Page["ahead"]
		switch v.Ahead {
		case 0:
			fields["People"], fields["PeopleLabel"] = w.Page["next"], ""
		case 1:
			fields["PeopleLabel"] = w.Page["aheadOne"]
		}
	}
	if v.State == "waiting" && v.ETAHigh > 0 {
		fields["Wait"] = waitText(v.ETALow, v.ETAHigh, v.Lang)
	}
	if v.Number > 0 {
		fields["Number"] = number(float64(v.Number), v.Lang)
	}
	if v.State == "before_opening" && !v.OpensAt.IsZero() {
		fields["OpensAt"] = v.OpensAt.Format(w.Plain["dateLayout"])
	}
	if !v.Now.IsZero() {
		fields["Now"] = v.Now.Format("15:04:05 MST")
	}
	return fields
}

// refresh is the content of the meta element that does what the Refresh header does, for proxies that drop it.
func (v WaitView) refresh() string {
	if v.State == "admitted" {
		return "1; url=" + v.Room.Entry
	}
	if v.Refresh <= 0 {
		return ""
	}
	return fmt.Sprint(v.Refresh)
}

func (v WaitView) heading(w lexicon) string {
	if v.State == "" {
		return w.Plain["noPlace"]
	}
	if heading, ok := w.Page[v.State]; ok {
		return heading
	}
	return w.Page["waiting"]
}

func (v WaitView) text(w lexicon) string {
	if v.State == "" {
		return w.Plain["noPlaceText"]
	}
	if text, ok := w.Page[v.State+"Kept"]; ok && v.Number > 0 {
		return text
	}
	// A page that can't join by itself does not promise it.
	if text, ok := w.Plain[v.State+"Text"]; ok {
		return text
	}
	return w.Page[v.State+"Text"]
}

func (v WaitView) hasAhead() bool {
	return v.Ahead >= 0 && (v.State == "waiting" || v.State == "paused" || v.State == "holding")
}

// inLine reports whether the visitor has a place to leave.
func (v WaitView) inLine() bool {
	switch v.State {
	case "", "admitted", "expired":
		return false
	}
	return v.Number > 0
}
