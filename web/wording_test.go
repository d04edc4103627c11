package web

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// The browser tests run the same table against queue/wording.js.
func TestWording_TablesHold(t *testing.T) {
	source, err := os.ReadFile("testdata/wording.json")
	if err != nil {
		t.Fatal(err)
	}
	var tables struct {
		People []struct {
			Lang, Want string
			Ahead      int64
		}
		Wait []struct {
			Lang, Want string
			Low, High  int64 // seconds
		}
	}
	if err := json.Unmarshal(source, &tables); err != nil {
		t.Fatal(err)
	}
	for _, test := range tables.People {
		if got := peopleText(test.Ahead, test.Lang); got != test.Want {
			t.Errorf("%d people in %s: got %q, want %q", test.Ahead, test.Lang, got, test.Want)
		}
	}
	for _, test := range tables.Wait {
		got := waitText(time.Duration(test.Low)*time.Second, time.Duration(test.High)*time.Second, test.Lang)
		if got != test.Want {
			t.Errorf("%d to %d s in %s: got %q, want %q", test.Low, test.High, test.Lang, got, test.Want)
		}
	}
	if len(tables.People) == 0 || len(tables.Wait) == 0 {
		t.Error("the tables are empty")
	}
}

// Whoever moves forward never reads of more people than before.
func TestWording_RoundingNeverTurnsAround(t *testing.T) {
	for n := int64(1); n < 300_000; n++ {
		if roundTwo(n) < roundTwo(n-1) {
			t.Fatalf("%d rounds to %d but %d to %d", n-1, roundTwo(n-1), n, roundTwo(n))
		}
	}
}
