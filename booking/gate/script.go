package gate

import (
	"context"
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/sendonce"
)

//go:embed take.lua
var takeLua string

//go:embed keep.lua
var keepLua string

//go:embed drop.lua
var dropLua string

//go:embed sold.lua
var soldLua string

var (
	takeScript = redis.NewScript(takeLua)
	keepScript = redis.NewScript(keepLua)
	dropScript = redis.NewScript(dropLua)
	soldScript = redis.NewScript(soldLua)
)

// once runs scripts that the client sends a single time.
type once struct{ redis.UniversalClient }

func (o once) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return sendonce.Script(ctx, o.UniversalClient, "eval", text, keys, args)
}

func (o once) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return sendonce.Script(ctx, o.UniversalClient, "evalsha", sha, keys, args)
}

// limitScripts runs the scripts of redis_rate on keys of our own names: without the "rate:" that the library puts in front,
// which access rules for a prefix would refuse.
type limitScripts struct{ once }

func (s limitScripts) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return s.once.Eval(ctx, text, ours(keys), args...)
}

func (s limitScripts) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return s.once.EvalSha(ctx, sha, ours(keys), args...)
}

func ours(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = strings.TrimPrefix(key, "rate:")
	}
	return out
}
