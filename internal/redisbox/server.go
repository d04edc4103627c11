package redisbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ropeline/internal/process"
)

const (
	startTimeout  = 20 * time.Second // a server that doesn't answer by then isn't going to
	startAttempts = 5                // each on another port
	busOffset     = 10000            // a cluster node's bus listens that much higher
	stopGrace     = 5 * time.Second  // how long it may take to end by itself before it is killed
)

// Server is one Redis server process. Its methods are safe for concurrent use.
type Server struct {
	path string
	dir  string
	port int
	args []string

	mu   sync.Mutex
	proc *process.Process
}

// Start runs the server binary at path on a free port and returns when it answers. extra is appended to
// its command line, so it can set any directive: "--maxmemory", "50mb". ctx bounds the start alone; the
// server runs until [Server.Stop] or the end of this process. An error of a server that didn't start
// carries the last lines of its log.
func Start(ctx context.Context, path string, extra ...string) (*Server, error) {
	var err error
	for range startAttempts {
		var s *Server
		if s, err = startOnFreePort(ctx, path, extra); err == nil {
			return s, nil
		}
		if !errors.Is(err, process.ErrPortTaken) {
			break
		}
	}
	return nil, err
}

func startOnFreePort(ctx context.Context, path string, extra []string) (*Server, error) {
	port, err := process.FreePort(busOffset)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ropeline-redis-")
	if err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	s := &Server{path: path, dir: dir, port: port, args: extra}
	if err := s.run(ctx); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// Addr is the server's host:port. It stays the same over [Server.Restart].
func (s *Server) Addr() string { return process.Local(s.port) }

// URL is the server's address as a configuration file takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Stop ends the server, by force after five seconds, and removes its files. Only the first call counts.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Stop(stopGrace, process.Terminate)
	_ = os.RemoveAll(s.dir)
}

// Kill ends the server at once, as a crash would. Its connections break.
func (s *Server) Kill() { s.current().Kill() }

// Pause halts the server: it stays connected and answers nothing until [Server.Resume].
func (s *Server) Pause() { s.current().Signal(process.Pause) }

// Resume continues a paused server.
func (s *Server) Resume() { s.current().Signal(process.Continue) }

// Restart kills the server if it is still running and starts it again, empty, on the same port. It
// returns when the new one answers.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("restart redis: %w", err)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return fmt.Errorf("restart redis: %w", err)
	}
	return s.run(ctx)
}

func (s *Server) current() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// run starts the process and waits until it answers. On an error nothing runs.
func (s *Server) run(ctx context.Context) error {
	if err := os.WriteFile(s.file("redis.conf"), s.config(), 0o600); err != nil {
		return fmt.Errorf("start redis: %w", err)
	}
	proc, err := process.Start(process.Config{
		Path: s.path,
		Args: append([]string{s.file("redis.conf")}, s.args...),
		Dir:  s.dir,
		Log:  s.file("log"),
	})
	if err != nil {
		return fmt.Errorf("start redis: %w", err)
	}
	if err := s.ready(ctx, proc); err != nil {
		proc.Kill()
		return fmt.Errorf("start %s on %s: %w; its log ends:\n%s", s.path, s.Addr(), err, proc.LogTail())
	}
	s.mu.Lock()
	s.proc = proc
	s.mu.Unlock()
	return nil
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// config is written to a file, not to the command line, because a sentinel rewrites its own.
func (s *Server) config() []byte {
	return []byte(strings.Join([]string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(s.port),
		"daemonize no",
		`logfile ""`,
		`save ""`,
		"appendonly no",
		"maxmemory-policy noeviction",
		"repl-diskless-sync-delay 0",
		"",
	}, "\n"))
}

// ready waits until the server answers. It asks for the process id, because whatever else listens on the
// port would answer a PING just as well.
func (s *Server) ready(ctx context.Context, proc *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	rdb := s.Client()
	defer rdb.Close()

	ours := fmt.Sprintf("process_id:%d\r\n", proc.ID())
	return proc.Await(ctx, func() error {
		// The client logs each connection it can't make, so it waits for one that can be made.
		if err := reachable(s.Addr()); err != nil {
			return err
		}
		if err := rdb.Ping(ctx).Err(); err != nil {
			return err
		}
		info, err := rdb.Info(ctx, "server").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, ours) {
			return process.ErrPortTaken
		}
		return nil
	})
}

func reachable(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}
