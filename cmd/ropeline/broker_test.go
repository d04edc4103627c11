//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"ropeline/internal/redisbox/redistest"
)

// What happens in the shop reaches a broker that wants a password, under the topic's prefix; without the broker it sells on.
func TestServe_TellsABrokerWhatHappens(t *testing.T) {
	t.Parallel()
	const topic = "shop.inventory-changed"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic, "shop.booking-events", "shop.ticket-issued"),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "shop", "a-password"))
	if err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("a-password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := serving(t, shopFile(t, redistest.Private(t).URL(), prepared(t, newDatabase(t)), fmt.Sprintf(
		"kafka: {brokers: [%q], topic_prefix: shop., sasl_mechanism: SCRAM-SHA-256, sasl_user: shop, sasl_password_file: %q}",
		strings.Join(cluster.ListenAddrs(), `", "`), password)))
	c := &counter{t: t, c: newClient(t), base: node.listen}
	hold := c.want(http.StatusCreated, http.MethodPost, "/events/43/holds", `{"seats":["A1","A2"]}`).HoldID

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at := kgo.NewOffset().AtStart()
	reader, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(at),
		kgo.SASL(scram.Auth{User: "shop", Pass: "a-password"}.AsSha256Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	found := false
	for !found && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			found = found || string(r.Key) == "43" && strings.Contains(string(r.Value), hold)
		})
	}
	if !found {
		t.Fatal("the broker never heard of the hold")
	}
	cluster.Close()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		c.want(http.StatusNoContent, http.MethodDelete, "/holds/"+hold, "")
		hold = c.want(http.StatusCreated, http.MethodPost, "/events/43/holds", `{"seats":["A1","A2"]}`).HoldID
	}
}
