// Package sendonce sends Lua scripts to Redis a single time.
//
// The client of a Cluster repeats a command whose connection broke, whatever MaxRetries says, although the script may have
// run. Where running it twice would do harm, its caller must be the one to decide.
package sendonce

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Script sends EVAL or EVALSHA with a script's text or name, and returns the command with its answer or error.
func Script(ctx context.Context, rdb redis.UniversalClient, command, what string, keys []string, args []any) *redis.Cmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, what, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	cmd.SetFirstKeyPos(3)
	_ = rdb.Process(ctx, single{cmd}) // the error is the command's too
	return cmd
}

// single is a command that go-redis sends a single time.
type single struct{ *redis.Cmd }

// NoRetry is what go-redis asks.
func (single) NoRetry() bool { return true }
