package demosite

import (
	"errors"
	"fmt"
	"sync"
)

// seatsPerRow is how many seats a row has.
const seatsPerRow = 10

// errNoSeat means that the hall has no seat of that name; errTaken that somebody else has it.
var (
	errNoSeat = errors.New("demosite: no such seat")
	errTaken  = errors.New("demosite: seat taken")
)

// seat is one seat of the hall.
type seat struct {
	Name string `json:"name"` // "A1"
	Sold bool   `json:"sold"`
}

// seats are the seats of the hall and who bought them.
type seats struct {
	mu     sync.Mutex
	order  []string
	owners map[string]string // seat -> visitor, "" = free
	taken  int
}

func newSeats(rows int) *seats {
	s := &seats{owners: make(map[string]string)}
	for row := range rows {
		for n := range seatsPerRow {
			name := fmt.Sprintf("%c%d", 'A'+row, n+1)
			s.order = append(s.order, name)
			s.owners[name] = ""
		}
	}
	return s
}

// buy sells a seat to visitor; buying one's own seat again changes nothing.
func (s *seats) buy(name, visitor string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, ok := s.owners[name]
	switch {
	case !ok:
		return errNoSeat
	case owner == visitor:
		return nil
	case owner != "":
		return errTaken
	}
	s.owners[name] = visitor
	s.taken++
	return nil
}

// owns tells whether visitor bought the seat.
func (s *seats) owns(name, visitor string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return visitor != "" && s.owners[name] == visitor
}

func (s *seats) list() []seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]seat, 0, len(s.order))
	for _, name := range s.order {
		all = append(all, seat{Name: name, Sold: s.owners[name] != ""})
	}
	return all
}

func (s *seats) sold() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

func (s *seats) left() int { return len(s.order) - s.sold() }
