package crowd

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// showProgress writes where the crowd stands to cfg.Progress until the function it returns is called: on a
// terminal one line, rewritten; elsewhere a line every two seconds.
func (c *crowd) showProgress(start time.Time) (stop func()) {
	w := c.cfg.Progress
	if w == nil {
		return func() {}
	}
	every, before, after := 2*time.Second, "", "\n"
	if isTerminal(w) {
		every, before, after = 200*time.Millisecond, "\r\x1b[K", ""
	}
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprint(w, before, c.progressLine(time.Since(start)), after)
			case <-done:
				fmt.Fprint(w, before, c.progressLine(time.Since(start)), "\n")
				return
			}
		}
	})
	return func() {
		close(done)
		writer.Wait()
	}
}

func (c *crowd) progressLine(passed time.Duration) string {
	t := &c.tally
	line := fmt.Sprintf("%4.0fs  joined %d  waiting %d  inside %d  admitted %d  left %d  came back %d  cheats refused %d",
		passed.Seconds(), t.joined.Load(), t.waiting.Load(), t.inside.Load(), t.admitted.Load(), t.left.Load(),
		t.cameBack.Load(), t.refused.Load())
	if c.cfg.Buy {
		sold, held := c.hands.count(time.Now())
		line += fmt.Sprintf("  held %d  sold %d", held, sold)
	}
	if n := t.passed.Load() + t.worse.Load() + t.turned.Load() + t.lost.Load(); n > 0 {
		line += fmt.Sprintf("  BROKEN %d", n)
	}
	if n := t.networkErrors.Load() + t.notNow.Load(); n > 0 {
		line += fmt.Sprintf("  retried %d", n)
	}
	return line
}

// isTerminal tells whether w is a character device, which for a command's output means a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
