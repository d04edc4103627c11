// Command render writes the pages of package web to files, for the browser tests to serve.
//
// Usage: go run ./web/e2e/render DIR
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ropeline/web"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: render DIR")
		os.Exit(2)
	}
	if err := render(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

// render writes page-<room>.html for three rooms, wait-<state>-<lang>.html, error-<status>[-refresh].html and csp.json
// (file name to Content-Security-Policy).
func render(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	policies := map[string]string{}
	write := func(name, policy string, body []byte) error {
		policies[name] = policy
		return os.WriteFile(filepath.Join(dir, name), body, 0o644)
	}
	tour := web.Room{ID: "spring-tour", Title: "Spring Tour 2027, Hà Nội", Entry: "/tickets/"}
	for _, room := range []web.Room{
		tour,
		{ID: "vietnamese", Title: tour.Title, Languages: []string{"vi"}, Entry: "/tickets/"},
		{ID: "hostile", Title: `</script></title><img src=x onerror="window.hacked=1"><!-- {{.}} & "q"`, Entry: "/tickets/"},
	} {
		page, err := web.NewPage(room)
		if err != nil {
			return err
		}
		if err := write("page-"+room.ID+".html", page.CSP, page.Body); err != nil {
			return err
		}
	}
	for _, lang := range web.Languages() {
		for _, state := range []string{"", "before_opening", "waiting", "admitted", "paused", "closed", "full", "holding", "expired", "closed-new", "full-new"} {
			body, err := wait(tour, lang, state)
			if err != nil {
				return err
			}
			if err := write("wait-"+state+"-"+lang+".html", web.PlainCSP(), body); err != nil {
				return err
			}
		}
	}
	for _, status := range []int{400, 403, 404, 405, 409, 502, 503, 504} {
		body := web.Error(web.ErrorView{Status: status, Room: tour.Title, Retry: "/tickets/"})
		if err := write(fmt.Sprintf("error-%d.html", status), web.PlainCSP(), body); err != nil {
			return err
		}
	}
	refreshing := web.Error(web.ErrorView{Status: 502, Room: tour.Title, Retry: "/tickets/", Refresh: 15})
	if err := write("error-502-refresh.html", web.PlainCSP(), refreshing); err != nil {
		return err
	}
	list, err := json.MarshalIndent(policies, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "csp.json"), list, 0o644)
}

// wait renders the page of one made-up place; "-new" is for whoever has none.
func wait(room web.Room, lang, state string) ([]byte, error) {
	hanoi := time.FixedZone("+07", 7*60*60)
	view := web.WaitView{
		Room: room, Lang: lang, State: state, Number: 20345, Ahead: 12345, ETALow: 11 * time.Minute, ETAHigh: 24 * time.Minute,
		OpensAt: time.Date(2026, 12, 10, 10, 0, 0, 0, hanoi), Now: time.Date(2026, 12, 10, 10, 4, 5, 0, hanoi), Refresh: 12,
	}
	if name, isNew := strings.CutSuffix(state, "-new"); isNew || state == "" {
		view.State, view.Number, view.Refresh = name, 0, 0
	}
	switch view.State {
	case "paused", "closed":
		view.Reason = "Sân khấu đang được kiểm tra an toàn.\nThe stage is being checked for safety."
	}
	var page bytes.Buffer
	err := web.Wait(&page, view)
	return page.Bytes(), err
}
