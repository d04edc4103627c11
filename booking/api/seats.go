package api

import (
	"encoding/json"
	"sync"

	"ropeline/booking"
)

// showSeats answers with the seat map. It is the same for everybody and the core's own copy: no query, no encoding.
func (a *API) showSeats(q *request) error {
	e, err := q.event()
	if err != nil {
		return err
	}
	m, err := a.core.SeatMap(q.Context(), e.ID, q.words.older)
	if err != nil {
		return err
	}
	q.w.Header().Set("Cache-Control", "no-cache") // kept, but asked about each time: it is not to be older than the core's
	q.sendBlob(blob{etag: m.ETag, plain: m.JSON, zipped: m.Gzip})
	return nil
}

// showLayout answers with where the seats of the hall stand.
func (a *API) showLayout(q *request) error {
	e, err := q.event()
	if err != nil {
		return err
	}
	l, err := a.core.Layout(q.Context(), e.ID)
	if err != nil {
		return err
	}
	if l == nil { // an event without numbered seats
		l = &booking.Layout{}
	}
	b, err := a.layouts.encoded(l)
	if err != nil {
		return err
	}
	q.w.Header().Set("Cache-Control", "public, max-age=60")
	q.sendBlob(b)
	return nil
}

// layouts keeps halls as they are sent: one of 50,000 seats takes a tenth of a second to encode.
type layouts struct {
	mu  sync.Mutex
	all map[int64]*layoutBlob // by map
}

// mostLayouts bounds the halls that are kept, each of some hundred kilobytes.
const mostLayouts = 64

type layoutBlob struct {
	of   *booking.Layout
	once sync.Once
	blob blob
	err  error
}

func (l *layouts) encoded(of *booking.Layout) (blob, error) {
	l.mu.Lock()
	kept := l.all[of.Map]
	if kept == nil || kept.of != of {
		if l.all == nil || len(l.all) >= mostLayouts {
			l.all = map[int64]*layoutBlob{}
		}
		kept = &layoutBlob{of: of}
		l.all[of.Map] = kept
	}
	l.mu.Unlock()
	kept.once.Do(func() { kept.blob, kept.err = encode(of) })
	return kept.blob, kept.err
}

type layoutBody struct {
	MapID int64                `json:"mapId"`
	Name  string               `json:"name"`
	Seats []booking.LayoutSeat `json:"seats"`
}

func encode(of *booking.Layout) (blob, error) {
	body := layoutBody{MapID: of.Map, Name: of.Name, Seats: of.Seats}
	if body.Seats == nil {
		body.Seats = []booking.LayoutSeat{}
	}
	plain, err := json.Marshal(body)
	if err != nil {
		return blob{}, err
	}
	return blobOf(plain), nil
}
