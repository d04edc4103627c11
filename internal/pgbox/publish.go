package pgbox

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// publicFolder is where copies go: a place that everybody can walk to, that outlasts a restart of the machine.
const publicFolder = "/var/tmp"

// marker is a file beside bin in a Postgres that was unpacked by npm: such a folder holds nothing but
// Postgres, so copying it shows nobody anything private.
const marker = "pg-symlinks.json"

// publish copies the Postgres that bin belongs to into parent, where every user can read it, once, and returns
// the bin of the copy. A checkout in root's home is such a place that nobody else can walk to.
func publish(bin, parent string) (string, error) {
	from := filepath.Dir(bin)
	if _, err := os.Stat(filepath.Join(from, marker)); err != nil {
		return "", fmt.Errorf("root can't run Postgres, and nobody else can reach %s", bin)
	}
	program, err := os.ReadFile(filepath.Join(bin, "postgres"))
	if err != nil {
		return "", err
	}
	id := sha256.Sum256(program) // one copy serves every checkout
	to := filepath.Join(parent, fmt.Sprintf("ropeline-postgres-%x", id[:8]))
	if ours(to) {
		return filepath.Join(to, "bin"), nil
	}
	work, err := os.MkdirTemp(parent, "ropeline-postgres-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := copyTree(work, from); err != nil {
		return "", err
	}
	if err := os.Rename(work, to); err != nil && !ours(to) { // another process may have been faster
		return "", fmt.Errorf("copy %s to where everybody can read it: %w", from, err)
	}
	return filepath.Join(to, "bin"), nil
}

// ours says whether dir was made by us: everybody may write to its parent, and would have us run their files.
func ours(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm() == 0o755 && owned(info)
}

func copyTree(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Type()&fs.ModeSymlink != 0:
			return nil
		case entry.IsDir():
			return os.Chmod(path, 0o755)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o100 != 0 {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}
