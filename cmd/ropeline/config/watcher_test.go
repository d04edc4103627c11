package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// rooms2 has two rooms, of which base has the first.
const rooms2 = "upstream: http://127.0.0.1:9000\nrooms:\n" +
	"  - {id: spring-tour, hosts: [a.example], rate: 100/s, active_limit: 5000}\n" +
	"  - {id: summer, hosts: [b.example], rate: 100/s, active_limit: 5000}\n"

func rate(text, rate string) string { return strings.ReplaceAll(text, "100/s", rate) }

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bench is a watcher with its file, and what it was told.
type bench struct {
	*Watcher
	t        *testing.T
	file     string
	applied  chan *Config
	reported chan error
}

func newBench(t *testing.T, file, text string, opts WatchOptions, environ ...string) *bench {
	t.Helper()
	if text != "" {
		write(t, file, text)
	}
	running, err := Load(file, environ)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, file: file, applied: make(chan *Config, 100), reported: make(chan error, 100)}
	opts.Apply = func(c *Config) { b.applied <- c }
	opts.Report = func(err error) { b.reported <- err }
	b.Watcher = NewWatcher(file, environ, running, opts)
	return b
}

// run starts Run, and ends it with the test.
func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run: got %v, want nil", err)
		}
		goleak.VerifyNone(b.t)
	})
}

const patience = 20 * time.Second // for a machine under load; nothing waits for it to pass

// wantRate waits until a configuration with that rate is applied. What is reported before is passed over: a file may be
// seen between two steps of a change.
func (b *bench) wantRate(want Rate) *Config {
	b.t.Helper()
	for {
		select {
		case cfg := <-b.applied:
			if cfg.Rooms[0].Rate == want {
				return cfg
			}
		case <-b.reported:
		case <-time.After(patience):
			b.t.Fatalf("the rate %s was not applied", want)
		}
	}
}

func (b *bench) wantReport(part string) {
	b.t.Helper()
	for {
		select {
		case cfg := <-b.applied:
			b.t.Fatalf("applied %s, want a report", cfg.Rooms[0].Rate)
		case err := <-b.reported:
			if strings.Contains(err.Error(), part) {
				return
			}
		case <-time.After(patience):
			b.t.Fatalf("%q was not reported", part)
		}
	}
}

func (b *bench) quiet() {
	b.t.Helper()
	select {
	case cfg := <-b.applied:
		b.t.Fatalf("applied the rate %s, want nothing", cfg.Rooms[0].Rate)
	case err := <-b.reported:
		b.t.Fatalf("reported %v, want nothing", err)
	default:
	}
}

var onlyEvents = WatchOptions{Poll: time.Hour}

func TestWatcher_NoticesEveryWayToChangeAFile(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, file, text string){
		"in place": write,
		"in two parts": func(t *testing.T, file, text string) {
			f, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, part := range []string{text[:30], text[30:]} {
				if _, err := f.WriteString(part); err != nil {
					t.Fatal(err)
				}
			}
		},
		"rename": func(t *testing.T, file, text string) {
			write(t, file+".new", text)
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
		},
		"remove and make anew": func(t *testing.T, file, text string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			write(t, file, text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, filepath.Join(t.TempDir(), "ropeline.yaml"), base, onlyEvents)
			b.run()
			for _, text := range []string{"200/s", "10/s", "6/min"} {
				change(t, b.file, rate(base, text))
				want, _ := ParseRate(text)
				b.wantRate(want)
			}
		})
	}
}

// A ConfigMap is a folder of links through ..data, which is turned to another folder by one rename.
func TestWatcher_NoticesAConfigMapThatIsSwapped(t *testing.T) {
	dir := t.TempDir()
	swap := func(version, text string) {
		t.Helper()
		folder := filepath.Join(dir, version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "ropeline.yaml"), text)
		link := filepath.Join(dir, "..data_tmp")
		if err := errors.Join(os.Symlink(version, link), os.Rename(link, filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	swap("..2026_1", base)
	file := filepath.Join(dir, "ropeline.yaml")
	if err := os.Symlink(filepath.Join("..data", "ropeline.yaml"), file); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, file, "", onlyEvents)
	b.run()
	swap("..2026_2", rate(base, "200/s"))
	b.wantRate(200)
	swap("..2026_3", rate(base, "300/s"))
	b.wantRate(300)
}

// Where no event comes (here the file is a link into a folder that is not watched), the content tells.
func TestWatcher_NoticesAChangeWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(t.TempDir(), "real.yaml")
	write(t, real, base)
	file := filepath.Join(dir, "ropeline.yaml")
	if err := os.Symlink(real, file); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, file, "", WatchOptions{Poll: 10 * time.Millisecond})
	b.run()
	write(t, real+".new", rate(base, "200/s"))
	if err := os.Rename(real+".new", real); err != nil {
		t.Fatal(err)
	}
	b.wantRate(200)
}

// A removal that is first seen by a poll is still done within two seconds.
func TestWatcher_DefaultsKeepWithinTwoSeconds(t *testing.T) {
	w := newBench(t, filepath.Join(t.TempDir(), "ropeline.yaml"), base, WatchOptions{}).Watcher
	if worst := w.opts.Poll + w.opts.Still + 10*w.opts.Debounce; worst > 2*time.Second {
		t.Errorf("got %v at worst, want at most 2s", worst)
	}
}

func TestWatcher_SeesAWriteBeforeRun(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "ropeline.yaml"), base, onlyEvents)
	write(t, b.file, rate(base, "200/s"))
	b.run()
	b.wantRate(200)
}

func TestWatcher_OutlivesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, filepath.Join(dir, "ropeline.yaml"), base, WatchOptions{Poll: 10 * time.Millisecond})
	b.run()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b.wantReport("no such file")
	if err := b.Status().Err; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Status: got %v, want fs.ErrNotExist", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, b.file+".new", rate(base, "200/s"))
	if err := os.Rename(b.file+".new", b.file); err != nil {
		t.Fatal(err)
	}
	b.wantRate(200)
}

// A busy neighbour in the folder does not keep the file from being read.
func TestWatcher_IsNotStarvedByOtherFiles(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "ropeline.yaml"), base, onlyEvents)
	b.run()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				_ = os.WriteFile(b.file+".log", []byte("x"), 0o600)
			}
		}
	}()
	write(t, b.file+".new", rate(base, "200/s"))
	if err := os.Rename(b.file+".new", b.file); err != nil {
		t.Fatal(err)
	}
	b.wantRate(200)
	close(stop)
	<-stopped
}

func TestWatcher_ReloadLooksAtOnceAndAlways(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "ropeline.yaml"), base, onlyEvents)
	b.run()
	b.Reload() // unchanged: applied again
	b.wantRate(100)
	write(t, b.file, "rooms: [")
	b.wantReport("is not YAML")
	b.Reload() // still broken: said again
	b.wantReport("is not YAML")
}

// clockBench is a bench whose looks and clock the test moves by itself.
type clockBench struct {
	*bench
	at time.Time
}

func newClockBench(t *testing.T, text string, environ ...string) *clockBench {
	c := &clockBench{bench: newBench(t, filepath.Join(t.TempDir(), "ropeline.yaml"), text, WatchOptions{}, environ...),
		at: time.Date(2026, 12, 10, 10, 0, 0, 0, time.UTC)}
	c.now = func() time.Time { return c.at }
	return c
}

// after moves the clock, writes text unless it is "", and looks.
func (c *clockBench) after(d time.Duration, text string) (again time.Duration) {
	c.t.Helper()
	c.at = c.at.Add(d)
	if text != "" {
		write(c.t, c.file, text)
	}
	return c.look(false)
}

func TestWatcher_ARemovalWaitsUntilTheFileIsStill(t *testing.T) {
	c := newClockBench(t, rooms2)
	half := rooms2[:strings.Index(rooms2, "  - {id: summer")]
	c.after(0, "")
	c.quiet()

	// Half a file is valid YAML, and is waited out.
	if again := c.after(time.Hour, rate(half, "200/s")); again != time.Second {
		t.Errorf("half written: got %v until the next look, want 1s", again)
	}
	c.after(900*time.Millisecond, "")
	c.quiet()
	c.after(50*time.Millisecond, rate(rooms2, "200/s")) // the other half: nothing is removed, so nothing waits
	if cfg := c.wantRate(200); len(cfg.Rooms) != 2 {
		t.Errorf("got %d rooms, want 2", len(cfg.Rooms))
	}

	// Each change of the content begins the second anew.
	c.after(time.Hour, rate(half, "300/s"))
	c.after(900*time.Millisecond, rate(half, "310/s"))
	c.Reload()
	if again := c.look(true); again != time.Second { // SIGHUP does not shorten it
		t.Errorf("changed again: got %v until the next look, want 1s", again)
	}
	c.after(900*time.Millisecond, "")
	c.quiet()
	if before := c.Status(); before.Hash != hash([]byte(rate(rooms2, "200/s"))) || before.Err != nil {
		t.Errorf("Status while it waits: got %+v", before)
	}
	c.after(100*time.Millisecond, "")
	if cfg := c.wantRate(310); len(cfg.Rooms) != 1 {
		t.Errorf("got %d rooms, want 1", len(cfg.Rooms))
	}
	c.after(time.Hour, "")
	c.quiet()

	// A room added, or another name for one, is a removal only if an id is gone.
	c.after(time.Hour, rate(rooms2, "400/s"))
	c.wantRate(400)
	if again := c.after(time.Hour, rate(strings.Replace(rooms2, "summer", "autumn", 1), "500/s")); again != time.Second {
		t.Errorf("a new id: got %v until the next look, want 1s", again)
	}
	c.quiet()
}

func TestWatcher_ABrokenFileChangesNothingAndIsReportedOnce(t *testing.T) {
	c := newClockBench(t, base)
	good := c.Status()
	for _, broken := range []string{"", "rooms: [", strings.Replace(base, "/s", "", 1), "upstream: http://127.0.0.1:9000\n", base[:20]} {
		if broken == "" {
			if err := os.Truncate(c.file, 0); err != nil {
				t.Fatal(err)
			}
		}
		c.after(time.Second, broken)
		select {
		case err := <-c.reported:
			var p *Problems
			if !errors.As(err, &p) || !errors.Is(c.Status().Err, err) {
				t.Errorf("%q: reported %v, and Status says %v", broken, err, c.Status().Err)
			}
		default:
			t.Errorf("%q: not reported", broken)
		}
		for range 3 {
			c.after(time.Minute, "")
		}
		c.quiet()
		if s := c.Status(); s.Hash != good.Hash || !s.LastLoaded.Equal(good.LastLoaded) {
			t.Errorf("%q: got %+v, want the hash and time of the running configuration", broken, s)
		}
	}

	if err := os.Remove(c.file); err != nil {
		t.Fatal(err)
	}
	c.after(time.Second, "")
	c.after(time.Second, "")
	if err := <-c.reported; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	c.quiet()

	// Mended, by what ran before or by something new.
	c.after(time.Second, base)
	c.wantRate(100)
	c.after(time.Second, rate(base, "200/s"))
	cfg := c.wantRate(200)
	want := Status{LastLoaded: c.at, Hash: cfg.Hash()}
	if got := c.Status(); got != want || got.Hash == good.Hash {
		t.Errorf("Status: got %+v, want %+v", got, want)
	}
}

// The environment stays on top of a changed file.
func TestWatcher_KeepsTheEnvironment(t *testing.T) {
	c := newClockBench(t, base, "ROPELINE_ROOMS_SPRING_TOUR_SESSION=7m")
	c.after(time.Second, rate(base, "200/s"))
	if got := c.wantRate(200).Rooms[0].Session; got != 7*time.Minute {
		t.Errorf("session: got %v, want 7m", got)
	}
}
