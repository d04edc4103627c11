package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lexicon is every word of one language. The keys are the same in each (a test holds them so).
type lexicon struct {
	Name   string                  `json:"name"`   // of the language, in itself
	Page   map[string]string       `json:"page"`   // queue page, also what [Wait] says of a place
	Plain  map[string]string       `json:"plain"`  // what only pages without a script say
	Errors map[string]errorWording `json:"errors"` // by problem or status
}

type errorWording struct {
	Title string `json:"title"` // what happened
	Text  string `json:"text"`  // what to do; {again}: who tries again, lexicon.Plain["againSelf"] or ["againYou"]
}

var words = map[string]lexicon{"vi": mustWords("vi"), "en": mustWords("en")}

// Languages lists the languages that pages can be shown in.
func Languages() []string { return []string{"vi", "en"} }

// Language picks one of languages by an Accept-Language header (RFC 9110, section 12.5.4): the one that the
// header wants most, else the first. A region counts for its language ("vi-VN" is "vi"). With no languages
// at all it picks among [Languages].
func Language(accept string, languages []string) string {
	if len(languages) == 0 {
		languages = Languages()
	}
	best, most := languages[0], 0.0
	for part := range strings.SplitSeq(accept, ",") {
		tag, weight := acceptPart(part)
		if tag == "*" {
			tag = languages[0]
		}
		if weight > most && slices.Contains(languages, tag) {
			best, most = tag, weight
		}
	}
	return best
}

// acceptPart reads one element of Accept-Language: primary language subtag and weight, 0 if unreadable.
func acceptPart(part string) (string, float64) {
	tag, params, weighted := strings.Cut(part, ";")
	primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
	if !weighted {
		return primary, 1
	}
	value, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q=")
	weight, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil || !(weight >= 0 && weight <= 1) {
		return primary, 0
	}
	return primary, weight
}

// namedWords is a lexicon with the code of its language, for pages that show several at once.
type namedWords struct {
	Lang, Name string
	W          map[string]string // lexicon.Plain
}

func plainWords(languages []string) []namedWords {
	var all []namedWords
	for _, lang := range languages {
		all = append(all, namedWords{Lang: lang, Name: words[lang].Name, W: words[lang].Plain})
	}
	return all
}

func mustWords(lang string) lexicon {
	source, err := files.ReadFile("words/" + lang + ".json")
	if err != nil {
		panic(err) // an embedded file: a build without it can't happen
	}
	var words lexicon
	if err := json.Unmarshal(source, &words); err != nil {
		panic(fmt.Errorf("words/%s.json: %w", lang, err))
	}
	return words
}
