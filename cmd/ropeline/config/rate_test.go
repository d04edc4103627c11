package config

import (
	"math"
	"testing"
)

func TestParseRate_KeepsTheUnit(t *testing.T) {
	for text, want := range map[string]float64{
		"100/s": 100, "6000/min": 100, "6/min": 0.1, "3600/h": 1, "1.5/s": 1.5, "0.5/min": 0.5 / 60, "90/min": 1.5,
		"1/h": 1.0 / 3600, "0": 0, "0/s": 0, "0/min": 0, "0.0": 0, "1000000/s": 1e6, "0.042/h": 0.042 / 3600, "-0": 0,
	} {
		got, err := ParseRate(text)
		if err != nil || math.Abs(float64(got)-want) > 1e-12 {
			t.Errorf("%s: got %v, %v, want %v per second", text, float64(got), err, want)
		}
	}
}

func TestParseRate_RefusesWhatIsNoRate(t *testing.T) {
	const form = " is not a rate, write 100/s, 6000/min or 0"
	const unit = " has an unknown unit, write 100/s, 6000/min or 360000/h"
	const bounds = " is out of range, allowed is 0 or from one a day (0.042/h) to 1000000/s"
	for text, want := range map[string]string{
		"": `""` + form, "fast": `"fast"` + form, "/s": `"/s"` + form, "1e3/s": `"1e3/s"` + form, "0x10/s": `"0x10/s"` + form,
		"NaN/s": `"NaN/s"` + form, "Inf/s": `"Inf/s"` + form, "+1/s": `"+1/s"` + form, "1./s": `"1./s"` + form, ".5/s": `".5/s"` + form,
		"1_000/s": `"1_000/s"` + form, "100 /s": `"100 /s"` + form, "1,5/s": `"1,5/s"` + form,
		"100/": `"100/"` + unit, "100/m": `"100/m"` + unit, "100/S": `"100/S"` + unit, "100/s/s": `"100/s/s"` + unit, "600/day": `"600/day"` + unit,
		"100":  `"100" has no unit, write 100/s or 6000/min (0 is allowed)`,
		"2.5":  `"2.5" has no unit, write 2.5/s or 150/min (0 is allowed)`,
		"-1/s": `"-1/s" is negative, write 100/s, 6000/min or 0`, "-5": `"-5" is negative, write 100/s, 6000/min or 0`,
		"1000001/s": `"1000001/s"` + bounds, "0.01/h": `"0.01/h"` + bounds,
	} {
		if got, err := ParseRate(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestRate_TextReadsBackTheSame(t *testing.T) {
	for _, text := range []string{"100/s", "6/min", "1/h", "90/min", "0", "1000000/s", "7/h", "0.042/h"} {
		first, err := ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		written, err := first.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again Rate
		if err := again.UnmarshalText(written); err != nil || again != first {
			t.Errorf("%s: got %s, which reads as %v, %v", text, first, float64(again), err)
		}
	}
	if got := Rate(0.1).String(); got != "6/min" {
		t.Errorf("0.1 per second: got %s, want 6/min", got)
	}
}
