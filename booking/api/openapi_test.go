package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var description = sync.OnceValues(func() (*openapi3.T, error) {
	file, err := openAPIFile()
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(file.plain)
})

var parameter = regexp.MustCompile(`\{[^}]*\}`)

func TestOpenAPI_IsAValidDescription(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("got version %s, want 3.1", doc.OpenAPI)
	}
}

func TestOpenAPI_NamesEveryRouteAndNoOther(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	said, served := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			said[method+" "+parameter.ReplaceAllString(path, "{}")] = true
		}
	}
	for _, r := range routes {
		served[r.method+" "+r.pattern] = true
	}
	for _, one := range slices.Sorted(maps.Keys(served)) {
		if !said[one] {
			t.Errorf("the file doesn't name %s", one)
		}
	}
	for _, one := range slices.Sorted(maps.Keys(said)) {
		if !served[one] {
			t.Errorf("the file names %s, which nobody serves", one)
		}
	}
}

func TestOpenAPI_NamesEveryProblem(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, code := range doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		said = append(said, code.(string))
	}
	slices.Sort(said)
	if want := slices.Sorted(maps.Keys(kinds)); !slices.Equal(said, want) {
		t.Errorf("got %v\nwant %v", said, want)
	}
}

func TestDocs_ListEveryProblemWithItsStatusAndWhatHelps(t *testing.T) {
	text, err := os.ReadFile("../../docs/booking-api.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]kind{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		status, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil || len(cells) != 3 {
			continue
		}
		for _, quoted := range regexp.MustCompile("`[a-z-]+`").FindAllString(cells[1], -1) {
			listed[strings.Trim(quoted, "`")] = kind{status: status, next: strings.TrimSpace(cells[2])}
		}
	}
	for code, k := range kinds {
		if got := listed[code]; got.status != k.status || got.next != k.next {
			t.Errorf("%s: the page says %d and %q, want %d and %q", code, got.status, got.next, k.status, k.next)
		}
	}
}

func TestOpenAPI_IsServedAsJSON(t *testing.T) {
	s := newStand(t)
	for _, path := range []string{"/openapi.json", "/v1/openapi.json"} {
		s.do("GET", path, "").is(200, "").has("openapi", "3.1.0").header("Access-Control-Allow-Origin", "*")
	}
}

func TestOpenAPI_CheckRefusesAnAnswerThatDoesNotFit(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	hold := doc.Components.Schemas["Hold"].Value
	for _, wrong := range []string{`{}`, `{"holdId":1}`, `[]`} {
		var value any
		_ = json.Unmarshal([]byte(wrong), &value)
		if hold.VisitJSON(value, openapi3.EnableJSONSchema2020()) == nil {
			t.Errorf("%s passes for a hold", wrong)
		}
	}
}

// fitsOpenAPI holds an answer against the file: its status, its type, its required headers and its body.
func fitsOpenAPI(t *testing.T, r *http.Request, got reply) {
	t.Helper()
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	where := r.Method + " " + r.URL.Path + " -> " + strconv.Itoa(got.Code)
	one := match(r.URL.EscapedPath()).byMethod(r.Method)
	code, _ := got.body["code"].(string)
	if one == nil || code == "cross-origin" {
		fits(t, where, doc.Components.Schemas["Problem"], got)
		return
	}
	if code == "internal" { // nobody promises that
		return
	}
	var said *openapi3.Response
	for path, item := range doc.Paths.Map() {
		if parameter.ReplaceAllString(path, "{}") == one.pattern {
			if ref := item.GetOperation(one.method).Responses.Status(got.Code); ref != nil {
				said = ref.Value
			}
		}
	}
	if said == nil {
		t.Errorf("%s (%s): not in the file", where, code)
		return
	}
	for name := range said.Headers {
		if got.Header().Get(name) == "" {
			t.Errorf("%s: no header %s", where, name)
		}
	}
	kind, _, _ := strings.Cut(got.Header().Get("Content-Type"), ";")
	media := said.Content[kind]
	switch {
	case len(said.Content) == 0 && got.Body.Len() == 0:
	case media == nil:
		t.Errorf("%s: the file doesn't know type %q there", where, kind)
	case strings.Contains(kind, "json") && r.Method != "HEAD":
		fits(t, where, media.Schema, got)
	}
}

func fits(t *testing.T, where string, schema *openapi3.SchemaRef, got reply) {
	t.Helper()
	if got.body == nil {
		return
	}
	if err := schema.Value.VisitJSON(map[string]any(got.body), openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s: %v\n%s", where, err, got.Body)
	}
}
