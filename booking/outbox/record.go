package outbox

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordSize is the most bytes of a record. Kafka's own default limit of a batch is 1,048,588; what a batch adds to a record
// fits in between.
const recordSize = 1_000_000

// record is the event as a CloudEvent 1.0 in Kafka's binary mode: attributes are headers, the payload is the value.
// ce_sequence is padded so that it also sorts as text.
func (k *kafka) record(e Event) *kgo.Record {
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	return &kgo.Record{
		Topic:     k.cfg.Prefix + e.Topic,
		Key:       []byte(e.Key),
		Value:     e.Payload,
		Timestamp: e.At,
		Headers: []kgo.RecordHeader{
			header("ce_specversion", "1.0"),
			header("ce_id", e.ID.String()),
			header("ce_type", e.Type),
			header("ce_source", k.cfg.Source),
			header("ce_subject", e.AggregateType+"/"+e.Key),
			header("ce_time", e.At.UTC().Format(time.RFC3339Nano)),
			header("ce_sequence", fmt.Sprintf("%020d", e.Seq)),
			header("content-type", "application/json"),
		},
	}
}

// size is what a record takes at most, with some for lengths and the batch around it.
func size(r *kgo.Record) int {
	n := 256 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 8
	}
	return n
}
