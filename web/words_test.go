package web

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

func TestLanguage_FollowsTheHeader(t *testing.T) {
	for _, test := range []struct {
		accept    string
		languages []string
		want      string
	}{
		{"", nil, "vi"},
		{"en", nil, "en"},
		{"en-GB,en;q=0.9,vi;q=0.8", nil, "en"},
		{"fr, vi-VN;q=0.7, en;q=0.5", nil, "vi"},
		{"EN-us", []string{"vi", "en"}, "en"},
		{"vi;q=0.2, en;q=0.9", nil, "en"},
		{"de", []string{"en", "vi"}, "en"},
		{"vi", []string{"en"}, "en"},
		{"*", []string{"en", "vi"}, "en"},
		{"vi;q=0, en;q=0.1", nil, "en"},
		{"vi;q=7, en;q=NaN, en;q=, ;;;,,", []string{"en", "vi"}, "en"},
	} {
		if got := Language(test.accept, test.languages); got != test.want {
			t.Errorf("Language(%q, %v): got %s, want %s", test.accept, test.languages, got, test.want)
		}
	}
}

func FuzzLanguage(f *testing.F) {
	f.Add("vi-VN,vi;q=0.9,en-US;q=0.8")
	f.Add("*;q=1,;q=,en;q=0.5.5")
	f.Fuzz(func(t *testing.T, accept string) {
		if got := Language(accept, []string{"en", "vi"}); got != "en" && got != "vi" {
			t.Errorf("Language(%q): got %q", accept, got)
		}
	})
}

func TestWords_EveryLanguageSaysEverything(t *testing.T) {
	placeholder := regexp.MustCompile(`\{\w+\}`)
	same := func(section, lang string, want, got map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got[key] == "" {
				t.Errorf("%s has no %s.%s", lang, section, key)
			}
			if w, g := placeholder.FindAllString(want[key], -1), placeholder.FindAllString(got[key], -1); !slices.Equal(w, g) {
				t.Errorf("%s %s.%s: placeholders %v, want %v", lang, section, key, g, w)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d words in %s, want %d", lang, len(got), section, len(want))
		}
	}
	en := words["en"]
	for lang, w := range words {
		same("page", lang, en.Page, w.Page)
		same("plain", lang, en.Plain, w.Plain)
		if w.Name == "" || len(w.Errors) != len(en.Errors) {
			t.Errorf("%s: name %q, %d errors, want %d", lang, w.Name, len(w.Errors), len(en.Errors))
		}
		for key := range en.Errors {
			said := w.Errors[key]
			if said.Title == "" || said.Text == "" {
				t.Errorf("%s says nothing about error %s", lang, key)
			}
			if w, g := placeholder.FindAllString(en.Errors[key].Text, -1), placeholder.FindAllString(said.Text, -1); !slices.Equal(w, g) {
				t.Errorf("%s error %s: placeholders %v, want %v", lang, key, g, w)
			}
		}
	}
}

// Each word that a script or template asks for exists, and each that exists is asked for somewhere.
func TestWords_NoneIsMissingAndNoneIsLeftOver(t *testing.T) {
	source := ""
	for _, name := range []string{"queue/page.js", "queue/wording.js", "queue/page.html", "plain/wait.html", "plain/error.html"} {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	page := words["en"].Page
	for _, use := range regexp.MustCompile(`\bw\.([a-zA-Z]\w*)|data-w="(\w+)"`).FindAllStringSubmatch(source, -1) {
		if key := use[1] + use[2]; page[key] == "" {
			t.Errorf("a page asks for the word %q, which is not there", key)
		}
	}
	for key := range page {
		base := regexp.MustCompile(`(One|Text)$`).ReplaceAllString(key, "")
		if !regexp.MustCompile(`\b(` + key + `|` + base + `)\b`).MatchString(source) {
			t.Errorf("nobody asks for the word %q", key)
		}
	}
}
