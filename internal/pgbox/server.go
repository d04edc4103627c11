package pgbox

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ropeline/internal/process"
)

const (
	startTimeout  = 60 * time.Second // recovery after a crash, on a slow disk
	startAttempts = 5                // each on another port
	stopGrace     = 10 * time.Second // to write everything to disk, before the server is told to end as it is
	again         = 20 * time.Millisecond
	superuser     = "ropeline"
	logName       = "server.log"
)

// errSharedMemory means that sessions of a server that was killed still use its memory.
var errSharedMemory = errors.New("sessions of the last server are still there")

// Config tunes a server. Its zero value is a durable one in a temporary folder.
type Config struct {
	// Dir is the data folder. It is made if it isn't there, and kept. It is refused, and not touched, where it
	// holds something else or was made by another major version of Postgres. "": a temporary folder that
	// [Server.Stop] removes.
	Dir string
	// Fast gives up durability for speed, for tests: what was committed outlives [Server.Kill], but not a
	// crash of the machine. It also lets every user of this machine in without a password.
	Fast bool
	// Args are more arguments of postgres: "-c", "log_statement=all".
	Args []string
}

// Server is one Postgres server. Its methods are safe for concurrent use.
type Server struct {
	install *install // nil for one of [At]
	data    string
	kept    bool
	args    []string
	address url.URL

	mu   sync.Mutex
	port int
	proc *process.Process
}

// At stands for a server that runs elsewhere, whose URL this is. It can't be stopped, killed or paused: these
// do nothing, and [Server.Restart] is an error.
func At(rawURL string) (*Server, error) {
	u, err := url.Parse(rawURL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, errors.New("pgbox: not a postgres:// URL") // without the URL, which may hold a password
	}
	return &Server{address: *u}, nil
}

// Start runs a server with the binaries in the folder bin, which [Find] finds, and returns when it takes
// connections. The first start in a folder takes some seconds. ctx bounds the start alone; the server runs until
// [Server.Stop] or the end of this process. An error of a server that didn't start carries the last lines
// of its log.
func Start(ctx context.Context, bin string, cfg Config) (*Server, error) {
	inst, err := newInstall(ctx, bin)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s := &Server{install: inst, kept: cfg.Dir != "", args: arguments(cfg)}
	if s.kept {
		s.data, err = filepath.Abs(cfg.Dir)
	} else {
		s.data, err = inst.temporary(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if err := s.start(ctx, cfg); err != nil {
		s.clean()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg Config) error {
	if err := s.install.prepare(ctx, s.data, cfg); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	password, err := readPassword(s.data)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	for range startAttempts {
		if s.port, err = process.FreePort(); err != nil {
			return fmt.Errorf("start postgres: %w", err)
		}
		if err = s.run(ctx); !errors.Is(err, process.ErrPortTaken) {
			break
		}
	}
	s.address = address(s.port, password)
	return err
}

func address(port int, password string) url.URL {
	user := url.User(superuser)
	if password != "" {
		user = url.UserPassword(superuser, password)
	}
	return url.URL{Scheme: "postgres", User: user, Host: process.Local(port), Path: "/postgres", RawQuery: "sslmode=disable"}
}

func arguments(cfg Config) []string {
	args := []string{
		"-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", // the default one can't be written to by everybody
		"-c", "max_connections=300",
	}
	if cfg.Fast {
		// Commits stay synchronous: with fsync off that costs a write to memory, and without it a server that is
		// killed forgets the last of them.
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	return append(args, cfg.Args...)
}

// URL is the address of the server's database "postgres", of which the user is a superuser. It stays the same
// over [Server.Restart]. It may carry a password, so it isn't to be logged.
func (s *Server) URL() string { return s.address.String() }

// URLOf is the same for another database.
func (s *Server) URLOf(database string) string {
	u := s.address
	u.Path, u.RawPath = "/"+database, ""
	return u.String()
}

// Stop ends the server, breaking its connections, and removes its files if they are temporary. Only the first call
// counts.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	s.family(process.Continue)
	if s.kept {
		s.proc.Stop(stopGrace, process.Interrupt, process.Quit)
	} else {
		s.proc.Stop(stopGrace, process.Quit)
	}
	s.clean()
}

// Kill ends the server and all its sessions at once, as a crash of it would.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.proc == nil {
		return
	}
	s.proc.Signal(process.Pause) // it would look after the children that it loses
	s.family(process.Kill)
	s.proc.Kill()
}

// Pause halts the server and all its sessions: they stay connected and answer nothing until [Server.Resume].
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Signal(process.Pause)
		s.family(process.Pause)
	}
}

// Resume continues a paused server.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.family(process.Continue)
		s.proc.Signal(process.Continue)
	}
}

// Restart kills the server if it is still running and starts it again on the same port, with what was
// committed before. It returns when it takes connections.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return errors.New("restart postgres: it isn't one of ours")
	}
	s.kill()
	return s.run(ctx)
}

// family signals the children of the server, one for each session and for each of its own tasks. Each is in a
// process group of its own, so the group of the server is only itself.
func (s *Server) family(signal process.Signal) {
	for _, pid := range process.Children(s.proc.ID()) {
		process.Send(pid, signal)
	}
}

func (s *Server) clean() {
	if !s.kept {
		_ = os.RemoveAll(s.data)
	}
}

// run starts the process, again while sessions of one that was killed are not quite gone, and waits until it
// takes connections. On an error nothing runs.
func (s *Server) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.departed(ctx)
	for {
		err := s.runOnce(ctx)
		if !errors.Is(err, errSharedMemory) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(again):
		}
	}
}

func (s *Server) runOnce(ctx context.Context) error {
	log := filepath.Join(s.data, logName)
	_ = os.Rename(log, log+".old") // the one of the last start is enough
	proc, err := process.Start(process.Config{
		Path: s.install.program("postgres"),
		Args: append([]string{"-D", s.data, "-p", strconv.Itoa(s.port)}, s.args...),
		Env:  environment(),
		Dir:  s.data,
		Log:  log,
		User: s.install.user,
		End:  s.end(),
	})
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	if err := s.ready(ctx, proc); err != nil {
		proc.Stop(stopGrace, process.Quit)
		log := proc.LogTail()
		if strings.Contains(log, "shared memory block") && strings.Contains(log, "is still in use") {
			err = errSharedMemory
		}
		return fmt.Errorf("start %s on port %d: %w; its log ends:\n%s", s.install.program("postgres"), s.port, err, log)
	}
	s.proc = proc
	return nil
}

// end is the signal for the end of this process: to end in order, or, where nothing is kept, at once.
func (s *Server) end() process.Signal {
	if s.kept {
		return process.Interrupt
	}
	return process.Quit
}
