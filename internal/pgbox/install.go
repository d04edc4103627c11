package pgbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ropeline/internal/process"
)

// install is a folder of Postgres programs and the account that they run as.
type install struct {
	bin   string
	major string           // "17"
	user  *process.Account // nil: as we do
}

// newInstall looks at the programs in bin. Where they run as another account that can't reach them, it
// copies them to where that one can.
func newInstall(ctx context.Context, bin string) (*install, error) {
	user, err := account()
	if err != nil {
		return nil, err
	}
	i := &install{bin: bin, user: user}
	version, err := i.version(ctx)
	if user != nil && errors.Is(err, fs.ErrPermission) {
		if i.bin, err = publish(bin, publicFolder); err != nil {
			return nil, err
		}
		version, err = i.version(ctx)
	}
	if err != nil {
		return nil, err
	}
	// initdb (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
	fields := strings.Fields(version)
	if len(fields) < 3 {
		return nil, fmt.Errorf("%s calls itself %q", i.program("initdb"), version)
	}
	i.major = fields[2]
	if end := strings.IndexFunc(i.major, func(r rune) bool { return r < '0' || r > '9' }); end > 0 {
		i.major = i.major[:end]
	}
	return i, nil
}

func (i *install) program(name string) string { return filepath.Join(i.bin, name) }

func (i *install) version(ctx context.Context) (string, error) {
	return i.output(ctx, string(filepath.Separator), "--version")
}

// reaches says whether the account can walk to dir.
func (i *install) reaches(ctx context.Context, dir string) bool {
	_, err := i.output(ctx, dir, "--version")
	return err == nil
}

// output runs initdb in dir and returns what it prints.
func (i *install) output(ctx context.Context, dir string, args ...string) (string, error) {
	return process.Output(ctx, process.Config{
		Path: i.program("initdb"), Args: args, Env: environment(), Dir: dir, User: i.user,
	})
}

// give makes path belong to the account.
func (i *install) give(path string) error {
	if i.user == nil {
		return nil
	}
	return os.Chown(path, int(i.user.UID), int(i.user.GID))
}

// environment is ours without the variables that steer Postgres, and in English: its log is read.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "TZ=") {
			env = append(env, v)
		}
	}
	return env
}
