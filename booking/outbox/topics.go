package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// create makes those topics of the records that don't exist, with as many partitions and replicas as the cluster gives by
// itself. Each topic is looked at once. Where creating is not allowed the records fail, until somebody else has made it.
func (k *kafka) create(ctx context.Context, records []*kgo.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh := map[string]bool{}
	for _, r := range records {
		if !k.seen[r.Topic] {
			fresh[r.Topic] = true
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	missing, err := k.missing(ctx, fresh)
	if err == nil && len(missing) > 0 {
		err = k.make(ctx, missing)
	}
	if err != nil {
		return fmt.Errorf("kafka: topics: %w", err)
	}
	for topic := range fresh {
		k.seen[topic] = true
	}
	return nil
}

// forget has a topic looked at again if it may be gone. The client never takes a topic of the same name for the one that it
// knew, unless it forgets that one first.
func (k *kafka) forget(topic string, err error) {
	if !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.client.PurgeTopicsFromProducing(topic)
	delete(k.seen, topic)
}

func (k *kafka) missing(ctx context.Context, topics map[string]bool) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	for name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, topic := range resp.Topics {
		if topic.Topic != nil && topic.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			missing = append(missing, *topic.Topic)
		}
	}
	return missing, nil
}

func (k *kafka) make(ctx context.Context, topics []string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(publishing.Milliseconds())
	for _, name := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		switch err := kerr.ErrorForCode(topic.ErrorCode); {
		case err == nil:
			k.cfg.Logger.Info("kafka: topic created", "topic", topic.Topic)
		case !errors.Is(err, kerr.TopicAlreadyExists):
			k.cfg.Logger.Warn("kafka: topic missing and not created", "topic", topic.Topic, "err", err)
		}
	}
	return nil
}
