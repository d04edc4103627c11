package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestMessages_AllFitAndKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var given []Event
		for i, size := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(7000, 9000)), 0, 80).Draw(t, "sizes") {
			given = append(given, Event{
				Seq: int64(i + 1), ID: uuid.New(), Topic: inventory, AggregateType: "event", Key: fmt.Sprint(i),
				Type: "SeatsHeld", Payload: json.RawMessage(fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("ế<", size/5))), At: time.Unix(1, 0).UTC(),
			})
		}
		var keys []string
		for _, text := range messages(3, given) {
			if len(text) > messageSize {
				t.Fatalf("a message of %d bytes", len(text))
			}
			var m message
			if err := json.Unmarshal([]byte(text), &m); err != nil || m.Shard != 3 {
				t.Fatalf("%v in %s", err, text)
			}
			if m.Reset != nil {
				keys = append(keys, *m.Reset)
			}
			for _, e := range m.Events {
				keys = append(keys, e.Key)
				if want := given[e.Seq-1]; string(e.Payload) != string(want.Payload) || e.ID != want.ID || !e.At.Equal(want.At) {
					t.Fatalf("got %+v, want %+v", e, want)
				}
			}
		}
		if len(keys) != len(given) {
			t.Fatalf("%d of %d events are told or reset", len(keys), len(given))
		}
		for i, key := range keys {
			if key != fmt.Sprint(i) {
				t.Fatalf("event %d is of key %s", i, key)
			}
		}
	})
}

func TestMessages_KeyThatDoesNotFitResetsAll(t *testing.T) {
	got := messages(0, []Event{{Key: strings.Repeat("k", 8000), Payload: json.RawMessage(`{}`)}})
	if len(got) != 1 || got[0] != `{"shard":0,"reset":""}` {
		t.Errorf("got %.100q", got)
	}
}
