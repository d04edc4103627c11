package pgbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// passwordName is the file in the data folder with the password of the superuser; without it there is none.
const passwordName = "ropeline-password"

// prepare sees to it that data is a data folder of this major version, making one where there is nothing.
func (i *install) prepare(ctx context.Context, data string, cfg Config) error {
	major, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return i.create(ctx, data, cfg)
	}
	if err != nil {
		return err
	}
	if found := strings.TrimSpace(string(major)); found != i.major {
		return fmt.Errorf("%s holds the data of Postgres %s, and %s is Postgres %s: use a server of that version, or another folder",
			data, found, i.bin, i.major)
	}
	return i.mustReach(ctx, data)
}

// create makes a data folder beside data and moves it there when it is complete, so that a folder that was half
// made never counts as one.
func (i *install) create(ctx context.Context, data string, cfg Config) error {
	if left, err := os.ReadDir(data); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is neither empty nor a data folder of Postgres", data)
	}
	if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(data), filepath.Base(data)+".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := i.give(work); err != nil {
		return err
	}
	if err := i.mustReach(ctx, work); err != nil {
		return err
	}
	if err := i.initdb(ctx, work, cfg); err != nil {
		return err
	}
	_ = os.Remove(data) // empty, if it is there at all
	return os.Rename(filepath.Join(work, "data"), data)
}

func (i *install) initdb(ctx context.Context, work string, cfg Config) error {
	made, password := filepath.Join(work, "data"), filepath.Join(work, passwordName)
	args := []string{"-D", made, "-U", superuser, "-E", "UTF8", "--locale=C"}
	if cfg.Fast || cfg.Dir == "" {
		args = append(args, "--no-sync")
	}
	if cfg.Fast {
		args = append(args, "--auth=trust")
	} else {
		if err := os.WriteFile(password, []byte(rand.Text()+"\n"), 0o600); err != nil {
			return err
		}
		if err := i.give(password); err != nil {
			return err
		}
		args = append(args, "--auth=scram-sha-256", "--pwfile="+password)
	}
	if _, err := i.output(ctx, work, args...); err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	if cfg.Fast {
		return nil
	}
	return os.Rename(password, filepath.Join(made, passwordName))
}

func (i *install) mustReach(ctx context.Context, dir string) error {
	if i.user == nil || i.reaches(ctx, dir) {
		return nil
	}
	return fmt.Errorf("root can't run Postgres, and the user that does it instead (number %d) can't reach %s: "+
		"choose a folder that everybody can walk to, or start this as another user", i.user.UID, dir)
}

// temporary returns a path for a data folder in a new folder, where the account can reach it.
func (i *install) temporary(ctx context.Context) (string, error) {
	var err error
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/tmp"} {
		var dir string
		if dir, err = os.MkdirTemp(parent, "ropeline-postgres-"); err != nil {
			continue
		}
		if err = i.give(dir); err == nil {
			err = i.mustReach(ctx, dir)
		}
		if err == nil {
			return dir, nil
		}
		_ = os.RemoveAll(dir)
	}
	return "", err
}

func readPassword(data string) (string, error) {
	text, err := os.ReadFile(filepath.Join(data, passwordName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}
