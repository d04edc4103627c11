package outbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// KafkaConfig says how to reach a Kafka cluster.
type KafkaConfig struct {
	Brokers  []string     // host:port; at least one
	Prefix   string       // before the names of the topics; default: none
	TLS      *tls.Config  // default: no TLS
	SASL     SASL         // default: none
	ClientID string       // default: ropeline
	Source   string       // ce_source, a URI reference; default: urn:ropeline:booking
	Logger   *slog.Logger // default: discards
}

// SASL is how to log in. The zero value does not.
type SASL struct {
	Mechanism      string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; default: SCRAM-SHA-512
	User, Password string
}

// kafka is a Sink. Its producer is idempotent, waits for all replicas in sync, and partitions keys as Kafka's own clients do.
type kafka struct {
	client *kgo.Client
	cfg    KafkaConfig
	mu     sync.Mutex
	seen   map[string]bool // topics that exist, or that we tried to create
}

// NewKafka returns a sink that publishes to Kafka, as CloudEvents in binary mode. It does not connect yet: a cluster that is
// away at the start is no error. Topics that are missing are created with the cluster's defaults if it allows that.
func NewKafka(cfg KafkaConfig) (Sink, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("kafka: no brokers")
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "ropeline"
	}
	if cfg.Source == "" {
		cfg.Source = "urn:ropeline:booking"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.WithLogger(clientLog{cfg.Logger}),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchMaxBytes(recordSize),
		// Publish ends with its context. Records that may have arrived come again, under a new epoch.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.DialTimeout(publishing),
		kgo.ProduceRequestTimeout(publishing),
		kgo.RetryTimeout(publishing),
		// A partition that moved is found, and a topic that is gone given up, within the time that Publish has.
		kgo.UnknownTopicRetries(2),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(50*time.Millisecond<<min(tries, 4), 500*time.Millisecond) }),
	}
	if cfg.TLS != nil {
		options = append(options, kgo.DialTLSConfig(cfg.TLS))
	}
	if cfg.SASL != (SASL{}) {
		login, err := cfg.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(login))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &kafka{client: client, cfg: cfg, seen: map[string]bool{}}, nil
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.User == "" || s.Password == "" {
		return nil, errors.New("kafka: SASL needs a user and a password")
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512", "":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: SASL mechanism %q is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", s.Mechanism)
}

func (k *kafka) Ping(ctx context.Context) error { return k.client.Ping(ctx) }

func (k *kafka) Close() { k.client.Close() }

// Publish looks for events that are too large before it sends any: nothing of a key overtakes one that is stuck.
func (k *kafka) Publish(ctx context.Context, events []Event) error {
	records := make([]*kgo.Record, len(events))
	bySeq := make(map[*kgo.Record]int64, len(events))
	for i, e := range events {
		records[i] = k.record(e)
		bySeq[records[i]] = e.Seq
		if size := size(records[i]); size > recordSize {
			return &StuckError{Seq: e.Seq, Reason: fmt.Sprintf("too large: %d bytes of %d", size, recordSize)}
		}
	}
	if err := k.create(ctx, records); err != nil {
		return err
	}
	var refused []*kgo.Record
	for _, done := range k.client.ProduceSync(ctx, records...) {
		switch {
		case refusal(done.Err):
			refused = append(refused, done.Record)
		case done.Err != nil:
			k.forget(done.Record.Topic, done.Err)
			return fmt.Errorf("kafka: produce to %s: %w", done.Record.Topic, done.Err)
		}
	}
	return k.single(ctx, refused, bySeq)
}

// single sends the records of batches that the broker refused one by one, to find which it means.
func (k *kafka) single(ctx context.Context, refused []*kgo.Record, bySeq map[*kgo.Record]int64) error {
	for _, r := range refused {
		again := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
		err := k.client.ProduceSync(ctx, again).FirstErr()
		if refusal(err) {
			return &StuckError{Seq: bySeq[r], Reason: err.Error()}
		}
		if err != nil {
			return fmt.Errorf("kafka: produce to %s: %w", r.Topic, err)
		}
	}
	return nil
}

// refusal says whether the broker means the record and not the moment.
func refusal(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// clientLog passes the client's own words on at the level for those who look for a fault: the relay says what matters.
type clientLog struct{ log *slog.Logger }

func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLog) Log(_ kgo.LogLevel, text string, keyvals ...any) {
	l.log.Debug("kafka: "+text, keyvals...)
}
