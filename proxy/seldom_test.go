package proxy

import (
	"slices"
	"testing"
	"time"
)

func TestSeldom_OneLineInTenSecondsSaysHowManyWereLeftOut(t *testing.T) {
	var s seldom
	var said []int
	start := time.Now()
	for second := range 25 {
		s.say(start.Add(time.Duration(second)*time.Second), func(left int) { said = append(said, left) })
	}
	if want := []int{0, 9, 9}; !slices.Equal(said, want) {
		t.Errorf("left out %v, want %v", said, want)
	}
}
