package web

import (
	"html"
	"strconv"
	"strings"
	"testing"
)

func TestError_SaysInBothLanguagesWhatHappenedAndWhatToDo(t *testing.T) {
	for _, status := range []int{400, 403, 404, 405, 408, 409, 413, 417, 500, 502, 503, 504} {
		page := html.UnescapeString(string(Error(ErrorView{Status: status})))
		key := strconv.Itoa(status)
		for lang, w := range words {
			said := w.Errors[key]
			for _, want := range []string{said.Title, fill(said.Text, "again", w.Plain["againYou"]), `lang="` + lang + `"`} {
				if want == "" || !strings.Contains(page, want) {
					t.Errorf("%d in %s: the page lacks %q", status, lang, want)
				}
			}
		}
		if !strings.Contains(page, "<style>"+plainStyle+"</style>") || strings.Contains(page, "<script") {
			t.Errorf("%d: the page does not suit PlainCSP", status)
		}
	}
}

func TestError_GoesFromTheProblemToTheStatusToItsKind(t *testing.T) {
	for _, test := range []struct {
		view ErrorView
		want string
	}{
		{ErrorView{Status: 403, Problem: "identity-required"}, "Please sign in first"},
		{ErrorView{Status: 503, Problem: "line-full"}, "The line is full"},
		{ErrorView{Status: 503, Problem: "something-new"}, "too busy"},
		{ErrorView{Status: 418}, "This address does not work"},
		{ErrorView{Status: 599}, "Something went wrong"},
		{ErrorView{}, "Something went wrong"},
	} {
		if page := string(Error(test.view)); !strings.Contains(page, test.want) {
			t.Errorf("%+v: the page lacks %q", test.view, test.want)
		}
	}
}

func TestError_SaysWhoTriesAgainAndPromisesNoMoreThanThePlace(t *testing.T) {
	for _, status := range []int{502, 504} {
		for _, test := range []struct {
			refresh    int
			want, lack []string
		}{
			{15, []string{"We try again by ourselves.", "Trang sẽ tự thử lại."}, []string{"Try again in a moment.", "Hãy thử lại sau giây lát."}},
			{0, []string{"Try again in a moment.", "Hãy thử lại sau giây lát."}, []string{"by ourselves", "tự thử lại"}},
		} {
			page := html.UnescapeString(string(Error(ErrorView{Status: status, Refresh: test.refresh})))
			for _, want := range append(test.want, "If you are waiting, your place is kept.", "Nếu đang xếp hàng, chỗ của bạn vẫn được giữ.") {
				if !strings.Contains(page, want) {
					t.Errorf("%d, refresh %d: the page lacks %q", status, test.refresh, want)
				}
			}
			for _, bad := range append(test.lack, "{again}", "time inside", "thời gian của bạn") {
				if strings.Contains(page, bad) {
					t.Errorf("%d, refresh %d: the page has %q", status, test.refresh, bad)
				}
			}
		}
	}
}

func TestError_TakesNoMarkupAndNoAddressOfAnotherHost(t *testing.T) {
	page := string(Error(ErrorView{Status: 502, Room: "<img src=x>", Retry: "//evil.example/", Refresh: 9, Languages: []string{"en", "xx"}}))
	if strings.Contains(page, "<img") || strings.Contains(page, "evil.example") {
		t.Error("the page carries what it was handed unescaped")
	}
	if !strings.Contains(page, `http-equiv="refresh" content="9"`) || strings.Contains(page, `lang="vi"`) {
		t.Error("the page does not refresh, or speaks a language that was not asked for")
	}
	if page := string(Error(ErrorView{Status: 502, Retry: "/tickets/?a=1&b=2"})); !strings.Contains(page, `href="/tickets/?a=1&amp;b=2"`) {
		t.Error("the page has no button to try again")
	}
}
