package queue

import "sync"

// shown remembers the least `ahead` that this node has told each place of the generation, so that a position never
// grows by an estimate's error: four bytes a place, indexed by number.
type shown struct {
	mu         sync.Mutex
	generation int64
	least      []uint32 // ahead + 1; 0 = none told yet
}

func (s *shown) reset(generation int64) {
	s.mu.Lock()
	s.generation, s.least = generation, nil
	s.mu.Unlock()
}

// clamp returns the least of ahead and what was told before. exact forgets the latter: the place was really counted.
func (s *shown) clamp(p Place, ahead int, exact bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Generation != s.generation {
		return ahead
	}
	if n := int(p.Number); n >= len(s.least) {
		s.least = append(s.least, make([]uint32, n+1-len(s.least)+len(s.least)/4)...)
	}
	told := &s.least[p.Number]
	if *told == 0 || exact || ahead+1 < int(*told) {
		*told = uint32(ahead + 1)
	}
	return int(*told) - 1
}
