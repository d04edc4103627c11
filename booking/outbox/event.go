package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Event is one row of bk.outbox: something that happened to inventory or to a booking.
type Event struct {
	Seq           int64           `json:"seq"`       // order of writing within a key; gaps are normal
	ID            uuid.UUID       `json:"id"`        // by which consumers drop repetitions
	Topic         string          `json:"topic"`     // booking-events, ticket-issued or inventory-changed
	AggregateType string          `json:"aggregate"` // what Key names: event, hotel, booking
	Key           string          `json:"key"`       // events of one key stay in order
	Type          string          `json:"type"`      // SeatsHeld, BookingConfirmed, ...
	Payload       json.RawMessage `json:"payload"`   // a JSON object
	At            time.Time       `json:"at"`        // when it was written, by the database's clock
}

// Sink is the broker that the events go to. [NewKafka] makes one. Several goroutines use it at once.
type Sink interface {
	// Publish sends the events in their order and returns once the broker has all of them, or an error if it may lack
	// some, at the latest when ctx ends. After an error the same events come again, also those that arrived. A
	// *[StuckError] names one that the broker will never take.
	Publish(ctx context.Context, events []Event) error

	// Ping says whether the broker can be reached.
	Ping(ctx context.Context) error

	Close()
}

// StuckError says that the broker will never take an event, however often it is asked: it is too large, say.
type StuckError struct {
	Seq    int64
	Reason string // without the payload
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("event %d refused for good: %s", e.Seq, e.Reason)
}
