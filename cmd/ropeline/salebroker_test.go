//go:build unix

package main

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topics are those that the core writes to.
var topics = []string{"booking-events", "inventory-changed", "ticket-issued"}

// broker is a Kafka in this process that can be cut off. What it was given it keeps.
type broker struct {
	cluster *kfake.Cluster
	door    *door
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{}
	var err error
	b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topics...), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		b.door = &door{addr: l.Addr(), inner: l, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
		return b.door, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // in this order: the cluster waits for Accept
		_ = b.door.Close()
		b.cluster.Close()
	})
	return b
}

// door is a listener that can be shut, with all that came through it, and opened again at the same address.
type door struct {
	addr net.Addr

	mu      sync.Mutex
	inner   net.Listener // nil while it is shut
	conns   map[net.Conn]bool
	closed  bool
	halted  bool
	changed chan struct{} // closed when one of the others changes
}

func (d *door) Addr() net.Addr { return d.addr }

func (d *door) Accept() (net.Conn, error) {
	for {
		d.mu.Lock()
		inner, closed, changed := d.inner, d.closed, d.changed
		d.mu.Unlock()
		switch {
		case closed:
			return nil, net.ErrClosed
		case inner == nil:
			<-changed
			continue
		}
		c, err := inner.Accept()
		if err != nil {
			<-changed
			continue
		}
		d.mu.Lock()
		d.conns[c] = true
		d.mu.Unlock()
		return guest{c, d}, nil
	}
}

// guest is a connection through the door. While that is halted nobody reads what comes.
type guest struct {
	net.Conn
	door *door
}

func (g guest) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	for {
		g.door.mu.Lock()
		halted, changed := g.door.halted, g.door.changed
		g.door.mu.Unlock()
		if !halted {
			return n, err
		}
		<-changed
	}
}

// halt lets everybody stay connected without an answer, or ends that.
func (d *door) halt(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.halted = on
	d.change()
}

func (d *door) Close() error {
	d.shut(true)
	return nil
}

// shut cuts everybody off.
func (d *door) shut(forGood bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner != nil {
		_ = d.inner.Close()
	}
	d.inner, d.closed, d.halted = nil, d.closed || forGood, false
	for c := range d.conns {
		_ = c.Close()
	}
	clear(d.conns)
	d.change()
}

func (d *door) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// open lets everybody in again.
func (d *door) open(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := net.Listen("tcp", d.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	d.inner = l
	d.change()
}

// writtenSQL keeps a list of the events that were committed: the outbox forgets those that are published.
const writtenSQL = `
CREATE TABLE written AS SELECT seq, id::text AS id, topic, aggregateid AS key, type, payload FROM bk.outbox;
CREATE FUNCTION note_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO written VALUES (NEW.seq, NEW.id, NEW.topic, NEW.aggregateid, NEW.type, NEW.payload);
  RETURN NULL;
END $$;
CREATE TRIGGER note_written AFTER INSERT ON bk.outbox FOR EACH ROW EXECUTE FUNCTION note_written();`

// writtenEvent is an event as it was committed.
type writtenEvent struct {
	Seq                  int64
	ID, Topic, Key, Type string
	Payload              json.RawMessage
}

// subjects are the things whose events must come in the order of writing: the booking, or each seat.
func (e writtenEvent) subjects() (out []string) {
	if e.Topic != "inventory-changed" {
		return []string{e.Topic + " " + e.Key}
	}
	var p struct {
		Seats []string
		Holds []struct{ Seats []string }
	}
	_ = json.Unmarshal(e.Payload, &p) // it came out of a jsonb
	for _, h := range p.Holds {
		p.Seats = append(p.Seats, h.Seats...)
	}
	for _, seat := range p.Seats {
		out = append(out, e.Key+"/"+seat)
	}
	return out
}

// written are the committed events by id.
func (s *stand) written() map[string]writtenEvent {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `SELECT seq, id, topic, key, type, payload FROM written`)
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[writtenEvent])
	if err != nil {
		s.t.Fatal(err)
	}
	byID := map[string]writtenEvent{}
	for _, e := range all {
		byID[e.ID] = e
	}
	return byID
}

// check reads the broker from the beginning until every committed event was there, and judges the order in which each thing's
// events came for the first time.
func (b *broker) check(t *testing.T, written map[string]writtenEvent) {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	missing, records, last := maps.Clone(written), 0, map[string]int64{}
	for len(missing) > 0 && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			records++
			id := ""
			for _, h := range r.Headers {
				if h.Key == "ce_id" {
					id = string(h.Value)
				}
			}
			e, known := written[id]
			if !known || e.Topic != r.Topic || e.Key != string(r.Key) {
				t.Errorf("the broker has %s/%s %s, committed was %+v", r.Topic, r.Key, id, e)
			}
			if _, first := missing[id]; !first {
				return
			}
			delete(missing, id)
			for _, subject := range e.subjects() {
				if e.Seq < last[subject] {
					t.Errorf("%s: event %d came after %d", subject, e.Seq, last[subject])
				}
				last[subject] = max(last[subject], e.Seq)
			}
		})
	}
	t.Logf("broker: %d records for %d committed events about %d bookings and seats", records, len(written), len(last))
	if len(missing) > 0 {
		t.Errorf("%d committed events never came, as %+v", len(missing), missing[slices.Sorted(maps.Keys(missing))[0]])
	}
}
