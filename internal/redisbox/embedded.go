package redisbox

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Embedded starts an in-process stand-in for Redis on a free port of 127.0.0.1. Its time to live values
// run down with the clock, as a real server's do. Sorted sets cost it a sort at every read, so it serves
// a few thousand places and no more. The caller closes it.
func Embedded() (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("start the in-process redis: %w", err)
	}
	return m, nil
}
