package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"ropeline/cmd/ropeline/config"
)

func levelOf(name string) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name)) // the configuration allows only names it knows
	return level
}

// newLogger writes JSON or text lines. Nothing that is logged is a token: routes and ids are logged, never addresses.
func newLogger(w io.Writer, cfg config.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(levelOf(cfg.Level))
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// redisLog takes what go-redis has to say of connections it could not make: the line tells when Redis is away.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "err", fmt.Sprintf(format, v...))
}
