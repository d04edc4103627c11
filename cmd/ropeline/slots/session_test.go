package slots

import (
	"testing"
	"time"

	"ropeline/queue"
)

func TestSession_ReadsWhatItWrote(t *testing.T) {
	for _, s := range []Session{
		{Place: queue.Place{ID: "AbC-_0123456789x", Generation: 33554431, Number: 268435455}, Expires: time.Unix(1796000000, 0)},
		{Place: queue.Place{ID: queue.NewID(), Generation: 1, Number: 1, Digest: "0123456789abcdefghij-_"}, Expires: time.Unix(1, 0)},
	} {
		got, err := ParseSession(s.String())
		if err != nil || got != s || len(s.String()) > 100 {
			t.Errorf("%q: got %+v, %v, want %+v", s, got, err, s)
		}
	}
}

func TestSession_OfAnAdmissionWithoutAPlaceIsNothing(t *testing.T) {
	if got := (Session{Place: queue.Place{ID: "x"}, Expires: time.Now()}).String(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestParseSession_RefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "s1", "s2.x.1.1..1", "s1..1.1..1", "s1.x.0.1..1", "s1.x.1.1..", "s1.x.1.1..1.1", "s1.x.1.-1..1", "s1.x.ZZZZZZZZZZZZZZZ.1..1"} {
		if s, err := ParseSession(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, s)
		}
	}
}
