package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// notNow tells whether an answer asks for another try. An answer of the upstream never does: it passed.
func notNow(a answer) bool {
	switch a.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return a.state() != "" || a.header.Get("Retry-After") != ""
	}
	return false
}

// retryPause is how long to wait before try attempt+1: Retry-After and up to a fifth more, else 0.5 s doubling
// to 8 s, give or take half.
func retryPause(a answer, attempt int, rng *rand.Rand) time.Duration {
	if s, err := strconv.Atoi(a.header.Get("Retry-After")); err == nil && s > 0 {
		told := min(time.Duration(s)*time.Second, 10*time.Minute)
		return told + time.Duration(rng.Float64()*0.2*float64(told))
	}
	base := 500 * time.Millisecond << min(max(attempt-1, 0), 4)
	return base/2 + time.Duration(rng.Float64()*float64(base))
}

// sleep waits for d and returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
