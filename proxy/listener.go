package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// listener hands connections to the server: at most so many at once, TLS shaken hands on, HTTP/1 wrapped in a
// strictConn. At the limit it stops accepting and leaves newcomers in the kernel's queue.
type listener struct {
	net.Listener
	slots chan struct{}
	h2c   bool
	tls   *tls.Config // nil: plain
	hello time.Duration

	ready  chan net.Conn // with TLS
	failed chan error
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

func newListener(l net.Listener, slots chan struct{}, h2c bool, cfg *tls.Config, hello time.Duration) *listener {
	ln := &listener{Listener: l, slots: slots, h2c: h2c, tls: cfg, hello: hello,
		ready: make(chan net.Conn), failed: make(chan error), stop: make(chan struct{})}
	if cfg != nil {
		ln.wg.Go(ln.shakeAll)
	}
	return ln
}

func (l *listener) Accept() (net.Conn, error) {
	if l.tls == nil {
		c, err := l.accept()
		if err != nil {
			return nil, err
		}
		c.scan.h2c = l.h2c
		return c, nil
	}
	select {
	case c := <-l.ready:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.stop:
		return nil, net.ErrClosed
	}
}

// accept waits for a free slot, then for a connection.
func (l *listener) accept() (*strictConn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.stop:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &strictConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// shakeAll accepts and shakes hands, each connection in its own time.
func (l *listener) shakeAll() {
	for {
		c, err := l.accept()
		if err != nil {
			select {
			case l.failed <- err:
				continue
			case <-l.stop:
				return
			}
		}
		l.wg.Go(func() { l.shake(c) })
	}
}

// shake delivers an HTTP/2 connection as the *tls.Conn that the server wants to see, and any other inside
// a strictConn that reads above the encryption.
func (l *listener) shake(outer *strictConn) {
	outer.off = true
	c := tls.Server(outer, l.tls)
	ctx, cancel := context.WithTimeout(context.Background(), l.hello)
	defer cancel()
	go func() {
		select {
		case <-l.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := c.HandshakeContext(ctx); err != nil {
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && plain.Conn != nil {
			_ = outer.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(outer, "HTTP/1.0 400 Bad Request\r\n\r\nThis address speaks HTTPS only.\n")
		}
		_ = outer.Close()
		return
	}
	var conn net.Conn = c
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		conn = &tlsConn{strictConn{Conn: c}, c}
	}
	select {
	case l.ready <- conn:
	case <-l.stop:
		_ = c.Close()
	}
}

func (l *listener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { close(l.stop) })
	l.wg.Wait()
	return err
}

// tlsConn lets the server see that HTTP/1 came by TLS.
type tlsConn struct {
	strictConn
	tls *tls.Conn
}

func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }
