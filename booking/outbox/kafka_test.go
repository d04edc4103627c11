package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestKafka_EventsArriveAsCloudEventsUnderTheirKey(t *testing.T) {
	cluster := broker(t)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs(), Prefix: "shop."})
	e := anEvent(7, "42", `{"event_id": 42, "seats": ["F5"]}`)
	if err := sink.Publish(t.Context(), []Event{e}); err != nil {
		t.Fatal(err)
	}
	got := consume(t, cluster, "shop.inventory-changed", 1)[0]
	if string(got.Key) != "42" || string(got.Value) != string(e.Payload) || !got.Timestamp.Equal(e.At.Truncate(time.Millisecond)) {
		t.Errorf("got key %s, value %s at %v", got.Key, got.Value, got.Timestamp)
	}
	headers := map[string]string{}
	for _, h := range got.Headers {
		headers[h.Key] = string(h.Value)
	}
	for key, want := range map[string]string{
		"ce_specversion": "1.0", "ce_id": e.ID.String(), "ce_type": "SeatsHeld", "ce_source": "urn:ropeline:booking", "ce_subject": "event/42",
		"ce_time": "2030-01-02T03:04:05.678901Z", "ce_sequence": "00000000000000000007", "content-type": "application/json",
	} {
		if headers[key] != want {
			t.Errorf("%s is %q, want %q", key, headers[key], want)
		}
		delete(headers, key)
	}
	if len(headers) > 0 {
		t.Errorf("more headers: %v", headers)
	}
}

func TestKafka_OneKeyStaysInOnePartitionAndInOrder(t *testing.T) {
	cluster := broker(t)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	var all []Event
	for i := range 2000 {
		all = append(all, anEvent(int64(i+1), fmt.Sprint(i%10), `{}`))
	}
	for part := range slices.Chunk(all, 300) {
		if err := sink.Publish(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	ordered(t, consume(t, cluster, "inventory-changed", len(all)), len(all))
}

// ordered checks that each key's records are in one partition, in order, and that there are n of them without repetitions.
func ordered(t *testing.T, records []*kgo.Record, n int) {
	t.Helper()
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	partition, last, ids := map[string]int32{}, map[string]string{}, map[string]bool{}
	for _, r := range records {
		id, sequence, key := header(r, "ce_id"), header(r, "ce_sequence"), string(r.Key)
		if p, known := partition[key]; known && p != r.Partition {
			t.Errorf("key %s is in partitions %d and %d", key, p, r.Partition)
		}
		partition[key] = r.Partition
		if !ids[id] && sequence < last[key] {
			t.Errorf("key %s: %s comes after %s", key, sequence, last[key])
		}
		ids[id], last[key] = true, max(last[key], sequence)
	}
	if len(ids) != n {
		t.Errorf("%d different events, want %d", len(ids), n)
	}
}

func TestKafka_PartitionThatMovedIsFoundAndNothingIsDoubled(t *testing.T) {
	cluster := broker(t)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	if err := sink.Publish(t.Context(), []Event{anEvent(1, "42", `{}`)}); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if asked.Add(1) > 1 {
			return nil, nil, false
		}
		produce := req.(*kmsg.ProduceRequest)
		resp := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range produce.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = rp.Partition, kerr.NotLeaderForPartition.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), publishing)
	defer cancel()
	if err := sink.Publish(ctx, []Event{anEvent(2, "42", `{}`), anEvent(3, "42", `{}`)}); err != nil {
		t.Fatal(err)
	}
	if asked.Load() < 2 {
		t.Errorf("%d requests to produce, want the refused one and another", asked.Load())
	}
	ordered(t, consume(t, cluster, "inventory-changed", 3), 3)
}

func TestKafka_TopicThatWasDeletedIsMadeAnew(t *testing.T) {
	cluster := broker(t)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	if err := sink.Publish(t.Context(), []Event{anEvent(1, "42", `{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.DeleteTopic("inventory-changed"); err != nil {
		t.Fatal(err)
	}
	e := anEvent(2, "42", `{}`)
	await(t, "the new topic to take it", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), publishing)
		defer cancel()
		return sink.Publish(ctx, []Event{e}) == nil
	})
	ordered(t, consume(t, cluster, "inventory-changed", 1), 1)
}

func TestKafka_BrokerThatHangsEndsWithTheContext(t *testing.T) {
	cluster := broker(t)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	if err := sink.Publish(t.Context(), []Event{anEvent(1, "42", `{}`)}); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	second, third := anEvent(2, "42", `{}`), anEvent(3, "42", `{}`)
	go func() { done <- sink.Publish(ctx, []Event{second}) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("acknowledged by a broker that hangs")
		}
	case <-time.After(20 * time.Second):
		t.Error("Publish outlives its context")
	}
	close(release)
	await(t, "the broker to take it", func() bool {
		return sink.Publish(t.Context(), []Event{second, third}) == nil
	})
	ordered(t, consume(t, cluster, "inventory-changed", 3), 3)
}

func TestKafka_EventTooLargeIsNamedAndSendsNothing(t *testing.T) {
	cluster := broker(t)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	huge := anEvent(2, "42", `"`+strings.Repeat("x", recordSize)+`"`)
	err := sink.Publish(t.Context(), []Event{anEvent(1, "42", `{}`), huge, anEvent(3, "42", `{}`)})
	stuck, is := err.(*StuckError)
	if !is || stuck.Seq != 2 || strings.Contains(stuck.Reason, "xxx") {
		t.Fatalf("got %v", err)
	}
	if info := cluster.TopicInfo("inventory-changed"); info != nil {
		t.Error("the others were sent, past the one that is stuck")
	}
}

func TestKafka_EventThatTheBrokerFindsTooLargeIsNamed(t *testing.T) {
	cluster := broker(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "5000"}))
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	large := anEvent(2, "42", `"`+noise(20000)+`"`)
	err := sink.Publish(t.Context(), []Event{anEvent(1, "42", `{}`), large, anEvent(3, "7", `{}`)})
	if stuck, is := err.(*StuckError); !is || stuck.Seq != 2 {
		t.Fatalf("got %v", err)
	}
	var many []Event // each fits, but not all in one batch
	for i := range 100 {
		many = append(many, anEvent(int64(10+i), "42", `"`+noise(200)+`"`))
	}
	if err := sink.Publish(t.Context(), many); err != nil {
		t.Errorf("events that fit one by one: %v", err)
	}
}

// noise is text that can't be compressed to less than half.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(strings.ReplaceAll(uuid.NewString(), "-", ""))
	}
	return b.String()[:n]
}

func TestKafka_Login(t *testing.T) {
	cluster := broker(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "plain-secret"), kfake.Superuser("SCRAM-SHA-256", "s2", "two-secret"),
		kfake.Superuser("SCRAM-SHA-512", "s5", "five-secret"))
	for _, login := range []struct {
		SASL
		ok bool
	}{
		{SASL{"PLAIN", "p", "plain-secret"}, true},
		{SASL{"SCRAM-SHA-256", "s2", "two-secret"}, true},
		{SASL{"SCRAM-SHA-512", "s5", "five-secret"}, true},
		{SASL{"", "s5", "five-secret"}, true},
		{SASL{"SCRAM-SHA-512", "s5", "wrong-secret"}, false},
		{SASL{}, false},
	} {
		logger, written := log()
		sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs(), SASL: login.SASL, Logger: logger})
		ctx, cancel := context.WithTimeout(t.Context(), publishing)
		err := sink.Ping(ctx)
		cancel()
		if (err == nil) != login.ok {
			t.Errorf("%s as %s: %v", login.Mechanism, login.User, err)
		}
		if strings.Contains(fmt.Sprint(err)+written(), "secret") {
			t.Errorf("the password is written: %v %s", err, written())
		}
	}
}

func TestNewKafka_RefusesWhatCannotWork(t *testing.T) {
	for want, cfg := range map[string]KafkaConfig{
		"no brokers":             {},
		"user and a password":    {Brokers: []string{"127.0.0.1:1"}, SASL: SASL{User: "u"}},
		"SASL mechanism \"MD5\"": {Brokers: []string{"127.0.0.1:1"}, SASL: SASL{Mechanism: "MD5", User: "u", Password: "p"}},
	} {
		if _, err := NewKafka(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestRelay_KafkaAwayAndBackLosesNothing(t *testing.T) {
	s := newShop(t)
	cluster := broker(t)
	_, port, _ := net.SplitHostPort(cluster.ListenAddrs()[0])
	number, _ := strconv.Atoi(port)
	sink := kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})
	_, heard := s.feed()
	logger, written := log()
	s.relay(RelayConfig{Sink: sink, Logger: logger})
	s.writeMany("42", 100)
	await(t, "an empty outbox", s.empty)
	ordered(t, consume(t, cluster, "inventory-changed", 100), 100)
	cluster.Close()
	s.writeMany("42", 1500)
	s.writeMany("43", 100)
	await(t, "the news", func() bool { return len(firsts(heard.events())) == 1700 })
	await(t, "the relay to see it", func() bool { return strings.Contains(written(), "broker away") })
	back := broker(t, kfake.Ports(number)) // with an empty memory
	await(t, "an empty outbox", s.empty)
	ordered(t, consume(t, back, "inventory-changed", 1600), 1600)
}

// kcat is not ours and not of the library that the sink is built on.
func TestRelay_KcatReadsWhatWasWritten(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no kcat in PATH, and CI installs it")
		}
		t.Skip("no kcat in PATH: the judge from outside is missing")
	}
	s := newShop(t)
	cluster := broker(t)
	s.relay(RelayConfig{Sink: kafkaSink(t, KafkaConfig{Brokers: cluster.ListenAddrs()})})
	committed := s.writers(10)
	await(t, "an empty outbox", s.empty)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, kcat, "-b", strings.Join(cluster.ListenAddrs(), ","), "-C", "-t", "inventory-changed", "-o", "beginning", "-e", "-q", "-J").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []*kgo.Record
	for line := range strings.Lines(string(out)) {
		var r struct {
			Partition int32
			Offset    int64
			Key       string
			Headers   []string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		record := &kgo.Record{Partition: r.Partition, Offset: r.Offset, Key: []byte(r.Key)}
		for i := 0; i+1 < len(r.Headers); i += 2 {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: r.Headers[i], Value: []byte(r.Headers[i+1])})
		}
		got = append(got, record)
	}
	ordered(t, got, committed)
	t.Logf("kcat read %d records of %d events", len(got), committed)
}

// broker is a Kafka cluster inside the test, behind real sockets.
func broker(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(3), kfake.SleepOutOfOrder()}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func kafkaSink(t *testing.T, cfg KafkaConfig) Sink {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	sink, err := NewKafka(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	return sink
}

// consume reads a topic until it has n different events and no more are there.
func consume(t *testing.T, cluster *kfake.Cluster, topic string, n int) (got []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end := int64(0)
	for _, p := range cluster.PartitionInfos(topic) {
		end += p.HighWatermark
	}
	for int64(len(got)) < end {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records of %s", len(got), end, topic)
		}
		got = append(got, fetches.Records()...)
	}
	if len(got) < n {
		t.Fatalf("%d records of %s, want %d", len(got), topic, n)
	}
	return got
}

func anEvent(seq int64, key, payload string) Event {
	return Event{
		Seq: seq, ID: uuid.New(), Topic: inventory, AggregateType: "event", Key: key, Type: "SeatsHeld", Payload: json.RawMessage(payload),
		At: time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC),
	}
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
