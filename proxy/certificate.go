package proxy

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a pair of PEM files, read again when one of them changes. Halves of a pair that is being
// replaced do not fit; the pair before stays until both are there.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	seen    [2]fileStamp
	checked time.Time
}

type fileStamp struct {
	size int64
	time time.Time
}

// checkEvery bounds how often the files are looked at.
const checkEvery = time.Second

func loadCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.seen = c.stamps()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s with key %s: %w", certFile, keyFile, err)
	}
	c.current, c.checked = &pair, time.Now()
	return c, nil
}

// get is a [tls.Config] GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= checkEvery {
		c.checked = now
		c.refresh()
	}
	return c.current, nil
}

func (c *certificate) refresh() {
	stamps := c.stamps()
	if stamps == c.seen {
		return
	}
	c.seen = stamps
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.log.Warn("certificate files changed but do not load; the old certificate stays", "err", err)
		return
	}
	c.current = &pair
	c.log.Info("certificate replaced")
}

func (c *certificate) stamps() (s [2]fileStamp) {
	for i, name := range [2]string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			s[i] = fileStamp{info.Size(), info.ModTime()}
		}
	}
	return s
}
