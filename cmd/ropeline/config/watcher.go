package config

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions tune a [Watcher]. Each field's zero value selects its default.
type WatchOptions struct {
	// Apply is handed each new configuration that has no problem. Default: nothing is done.
	Apply func(*Config)
	// Report is handed what is wrong with a changed file, once for each content, and again for each [Watcher.Reload].
	// The error is [*Problems]. Default: nothing is done.
	Report func(error)

	Poll     time.Duration // how often the content is looked at without being told; default 500ms
	Debounce time.Duration // how long the folder must be quiet before it is looked at; default 50ms
	Still    time.Duration // how long the content must stay as it is before a room is removed; default 1s
}

// Watcher follows the file of a running process. A change is noticed by the file system's events and, should these be
// lost (network file systems, bind mounts) or should the file be a link into another folder, by looking at the content
// twice a second. What counts is the content alone: a file written in place, renamed over, removed and made anew, or
// reached by a link that was turned elsewhere are all one.
//
// A change takes effect within two seconds, a change that removes a room too, which waits until the content has stayed
// as it is for a second: half a file can be valid YAML that lacks its last rooms.
//
// Apply and Report are called by Run's goroutine, one at a time. All methods are safe for concurrent use.
type Watcher struct {
	path    string
	environ []string
	opts    WatchOptions
	now     func() time.Time
	reload  chan struct{}

	// Of Run's goroutine alone.
	running *Config
	seen    string    // the content that was looked at last: its hash, or why it could not be read
	since   time.Time // when it was first seen
	settled bool      // whether it was applied or reported

	mu     sync.Mutex
	status Status
}

// Status says how the file and the process stand.
type Status struct {
	LastLoaded time.Time // when the running configuration was loaded
	Hash       string    // of the running configuration, as [Config.Hash]
	Err        error     // what is wrong with the file as it is now; nil = nothing
}

// NewWatcher returns a Watcher of the file at path that takes running, which [Load] returned for the same path and
// environment and is not nil, for what the process does now. Nothing is watched before [Watcher.Run].
func NewWatcher(path string, environ []string, running *Config, opts WatchOptions) *Watcher {
	if opts.Apply == nil {
		opts.Apply = func(*Config) {}
	}
	if opts.Report == nil {
		opts.Report = func(error) {}
	}
	opts.Poll = cmp.Or(opts.Poll, 500*time.Millisecond)
	opts.Debounce = cmp.Or(opts.Debounce, 50*time.Millisecond)
	opts.Still = cmp.Or(opts.Still, time.Second)
	now := time.Now
	return &Watcher{path: path, environ: environ, opts: opts, now: now, reload: make(chan struct{}, 1),
		running: running, seen: running.hash, settled: true,
		status: Status{LastLoaded: now(), Hash: running.hash}}
}

// Reload makes Run look at the file now and apply or report it even if it has not changed. It does not wait.
func (w *Watcher) Reload() {
	select {
	case w.reload <- struct{}{}:
	default: // one is on its way already
	}
}

// Status returns how the file and the process stand.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Run follows the file until ctx ends, and then returns nil. The first look is at once, so a write between the load
// and Run is not lost. Without events (no inotify instance is left) it only polls.
func (w *Watcher) Run(ctx context.Context) error {
	folder := watchFolder(filepath.Dir(w.path))
	defer folder.close()
	poll := time.NewTicker(w.opts.Poll)
	defer poll.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	var burst time.Time // when the events began that are waited out; zero = none
	for {
		force := false
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-folder.events:
			if !ok {
				folder.events = nil
			} else if now := w.now(); burst.IsZero() || now.Sub(burst) < 10*w.opts.Debounce { // a busy folder is looked at too
				if burst.IsZero() {
					burst = now
				}
				look.Reset(w.opts.Debounce)
			}
			continue
		case <-folder.errors: // events were lost
		case <-w.reload:
			force = true
		case <-poll.C:
			folder.renew()
			if !burst.IsZero() {
				continue
			}
		case <-look.C:
		}
		burst = time.Time{}
		if again := w.look(force); again > 0 {
			look.Reset(again)
		}
	}
}

// look reads the file and acts on what it finds. It returns after how long a removal will have been still for long
// enough, 0 if none waits.
func (w *Watcher) look(force bool) (again time.Duration) {
	now := w.now()
	data, err := read(w.path)
	content := hash(data)
	if err != nil {
		content = err.Error()
	}
	if content != w.seen {
		w.seen, w.since, w.settled = content, now, false
	}
	if w.settled && !force {
		return 0
	}
	var cfg *Config
	if err == nil {
		cfg, err = Parse(data, w.environ)
	}
	if err != nil {
		w.settled = true
		w.set(func(s *Status) { s.Err = err })
		w.opts.Report(err)
		return 0
	}
	if wait := w.opts.Still - now.Sub(w.since); wait > 0 && removes(w.running, cfg) {
		w.settled = false
		return wait
	}
	w.settled, w.running = true, cfg
	w.set(func(s *Status) { *s = Status{LastLoaded: now, Hash: cfg.hash} })
	w.opts.Apply(cfg)
	return 0
}

func (w *Watcher) set(change func(*Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}

// removes reports whether a room of old is not in new.
func removes(old, new *Config) bool {
	kept := map[string]bool{}
	for _, r := range new.Rooms {
		kept[r.ID] = true
	}
	for _, r := range old.Rooms {
		if !kept[r.ID] {
			return true
		}
	}
	return false
}

// folder tells of events in one folder. What happened is not told: the content says it.
type folder struct {
	path    string
	watcher *fsnotify.Watcher // nil if there are no events to be had
	events  chan fsnotify.Event
	errors  chan error
}

func watchFolder(path string) *folder {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return &folder{path: path}
	}
	f := &folder{path: path, watcher: watcher, events: watcher.Events, errors: watcher.Errors}
	f.renew()
	return f
}

// renew watches the folder again after it was away.
func (f *folder) renew() {
	if f.watcher != nil && len(f.watcher.WatchList()) == 0 {
		_ = f.watcher.Add(f.path) // still away: the next poll tries again
	}
}

func (f *folder) close() {
	if f.watcher != nil {
		_ = f.watcher.Close() // nothing is lost by it
	}
}
