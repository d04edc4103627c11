package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	earSize  = 1024            // messages that wait to be taken
	earQuiet = 2 * time.Second // without a message the connection is tested
)

// heard is one message as it came off the wire.
type heard struct {
	text   string
	at     time.Time // when it was received: what waits to be taken is older than it looks
	missed bool      // messages before this one were thrown away
}

// ear is a connection that listens. Its own goroutine reads, so that a message gets its time when it comes.
type ear struct {
	conn  *pgx.Conn
	heard chan heard
	ended chan struct{} // closed once nothing more comes
	err   error         // why; to be read after ended
	stop  context.CancelFunc
}

// open connects and listens. From its return on nothing is missed that is not said to be.
func open(ctx context.Context, connect func(ctx context.Context) (*pgx.Conn, error)) (*ear, error) {
	limited, cancel := context.WithTimeout(ctx, retryLast)
	defer cancel()
	conn, err := connect(limited)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(limited, "LISTEN "+channel); err != nil {
		shut(conn)
		return nil, fmt.Errorf("listen: %w", err)
	}
	e := &ear{conn: conn, heard: make(chan heard, earSize), ended: make(chan struct{})}
	ctx, e.stop = context.WithCancel(ctx)
	go e.read(ctx)
	return e, nil
}

// close ends the connection and waits for its goroutine.
func (e *ear) close() {
	e.stop()
	<-e.ended
	shut(e.conn)
}

func (e *ear) read(ctx context.Context) {
	defer close(e.ended)
	for {
		n, err := e.wait(ctx)
		if err != nil {
			e.err = err
			return
		}
		if n != nil {
			e.put(heard{text: n.Payload, at: time.Now()})
		}
	}
}

// wait returns the next message, or nil if the connection is well and quiet.
func (e *ear) wait(ctx context.Context) (*pgconn.Notification, error) {
	limited, cancel := context.WithTimeout(ctx, earQuiet)
	defer cancel()
	n, err := e.conn.WaitForNotification(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return n, err
	}
	limited, cancel = context.WithTimeout(ctx, earQuiet)
	defer cancel()
	return nil, e.conn.Ping(limited)
}

// put never waits for whoever takes the messages: the connection would back up, and with it the queue of Postgres.
func (e *ear) put(h heard) {
	select {
	case e.heard <- h:
		return
	default:
	}
	for len(e.heard) > 0 {
		select {
		case <-e.heard:
		default:
		}
	}
	e.heard <- heard{missed: true} // nobody else puts, so there is room
	e.heard <- h
}

func shut(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may be gone already
}
