package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const (
	channel     = "bk_feed"
	messageSize = 7800 // bytes; Postgres takes less than 8,000
	shards      = 4    // as in the generated column bk.outbox.shard
)

// message is what one NOTIFY says of a shard. With neither events nor a reset it is a heartbeat: everything that was
// committed to the shard before the sender's snapshot has been told.
type message struct {
	Shard  int     `json:"shard"` // 0 to 3
	Events []Event `json:"events,omitempty"`
	Reset  *string `json:"reset,omitempty"` // events of this key don't fit into a message
}

// heartbeat of a shard.
func heartbeat(shard int) string { return fmt.Sprintf(`{"shard":%d}`, shard) }

// messages puts the events, in their order, into as few messages as they fit.
func messages(shard int, events []Event) []string {
	head := fmt.Sprintf(`{"shard":%d,"events":[`, shard)
	const tail = "]}"
	var (
		out  []string
		text []byte // the message under way, without its tail; empty: none
	)
	flush := func() {
		if len(text) > 0 {
			out = append(out, string(append(text, tail...)))
			text = text[:0]
		}
	}
	for _, e := range events {
		one, err := marshal(e)
		if err != nil || len(head)+len(one)+len(tail) > messageSize {
			flush()
			out = append(out, reset(shard, e.Key))
			continue
		}
		if len(text)+len(",")+len(one)+len(tail) > messageSize {
			flush()
		}
		if len(text) == 0 {
			text = append(text, head...)
		} else {
			text = append(text, ',')
		}
		text = append(text, one...)
	}
	flush()
	return out
}

// reset says that events of a key were left out; of any key, if not even the key fits.
func reset(shard int, key string) string {
	text, err := marshal(message{Shard: shard, Reset: &key})
	if err != nil || len(text) > messageSize {
		return fmt.Sprintf(`{"shard":%d,"reset":""}`, shard)
	}
	return string(text)
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
