package booking

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"hash/fnv"
	"time"
)

// SeatMap is an event's seats as they are shown, at most 2 s old.
type SeatMap struct {
	ETag string // of the content, so the same on every node
	JSON []byte // {"eventId":1,"seats":{"F5":"AVAILABLE",...},"free":1,"held":0,"sold":0}; by section, row and position
	Gzip []byte // the same, compressed; nil where that saves nothing
	At   time.Time

	Free, Held, Sold int
}

// mapAge is how long a map is shown before it is made anew, if anything changed.
const mapAge = 500 * time.Millisecond

// SeatMap returns the map of an event. A seat whose hold has run out is AVAILABLE, whether or not anybody has cleaned it up.
// compat says BOOKED instead of SOLD. While Postgres is away it is the last map that was known.
func (c *Core) SeatMap(ctx context.Context, id int64, compat bool) (*SeatMap, error) {
	e, err := c.catalog.event(ctx, id)
	if err != nil {
		return nil, err
	}
	b := c.boards.get(e)
	if b == nil {
		return &SeatMap{ETag: `"none"`, JSON: fmt.Appendf(nil, `{"eventId":%d,"seats":{},"free":0,"held":0,"sold":0}`, id), At: time.Now()}, nil
	}
	kind := 0
	if compat {
		kind = 1
	}
	b.mu.Lock()
	b.used = time.Now()
	last := b.maps[kind]
	b.mu.Unlock()
	if last != nil && time.Since(last.At) < mapAge {
		return last, nil
	}
	age := boardAge
	if !c.fresh(id) {
		age = boardBlind
	}
	if err := b.read(ctx, c, age); err != nil {
		if last != nil {
			return last, nil
		}
		return nil, err
	}
	got, err, _ := c.catalog.flight.Do(fmt.Sprintf("map %d %t", id, compat), func() (any, error) { return b.render(c, kind), nil })
	if err != nil {
		return nil, err
	}
	return got.(*SeatMap), nil
}

// render makes the map anew, unless it would be the same bytes.
func (b *board) render(c *Core, kind int) *SeatMap {
	words := statusNames
	if kind == 1 {
		words[sold] = "BOOKED"
	}
	now, known := c.clock.read()
	if !known {
		now = time.Now()
	}
	t := now.UnixMilli()
	m := &SeatMap{At: time.Now()}
	b.mu.RLock()
	out := bytes.NewBuffer(make([]byte, 0, 24*len(b.layout.Seats)+128))
	fmt.Fprintf(out, `{"eventId":%d,"seats":{`, b.event)
	first := true
	for i := range b.seats {
		status := b.seats[i].status
		if status == absent {
			continue
		}
		if status == held && b.seats[i].until <= t {
			status = free
		}
		switch status {
		case free:
			m.Free++
		case held:
			m.Held++
		case sold:
			m.Sold++
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.WriteByte('"')
		out.WriteString(b.layout.Seats[i].Code) // of [A-Za-z0-9_.:-]
		out.WriteString(`":"`)
		out.WriteString(words[status])
		out.WriteByte('"')
	}
	last := b.maps[kind]
	b.mu.RUnlock()
	fmt.Fprintf(out, `},"free":%d,"held":%d,"sold":%d}`, m.Free, m.Held, m.Sold)
	m.JSON = out.Bytes()
	if last != nil && bytes.Equal(last.JSON, m.JSON) {
		m.JSON, m.Gzip, m.ETag = last.JSON, last.Gzip, last.ETag
	} else {
		sum := fnv.New128a()
		_, _ = sum.Write(m.JSON)
		m.ETag = fmt.Sprintf(`"%x"`, sum.Sum(nil))
		m.Gzip = compressed(m.JSON)
	}
	b.mu.Lock()
	b.maps[kind] = m
	b.mu.Unlock()
	return m
}

func compressed(body []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a known level
	_, _ = w.Write(body)
	if w.Close() != nil || out.Len() >= len(body) {
		return nil
	}
	return out.Bytes()
}
