package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// SharedKeys returns the signing keys that Redis keeps for nodes without a keys file. The first node to ask writes what
// fresh makes. All nodes that share a Redis get the same bytes.
func SharedKeys(ctx context.Context, rdb redis.UniversalClient, fresh func() ([]byte, error)) ([]byte, error) {
	kept, err := rdb.Get(ctx, signingKeys).Bytes()
	if err == nil {
		return kept, nil
	}
	if err := refusal(err); err != nil {
		return nil, fmt.Errorf("shared signing keys: %w", err)
	}
	made, err := fresh()
	if err != nil {
		return nil, fmt.Errorf("shared signing keys: %w", err)
	}
	if err := refusal(rdb.SetNX(ctx, signingKeys, made, 0).Err()); err != nil {
		return nil, fmt.Errorf("shared signing keys: %w", err)
	}
	kept, err = rdb.Get(ctx, signingKeys).Bytes()
	if err != nil {
		return nil, fmt.Errorf("shared signing keys: %w", refusal(err))
	}
	return kept, nil
}
