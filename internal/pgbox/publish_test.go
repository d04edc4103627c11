package pgbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// closedTree makes a Postgres as npm unpacks one, under a umask that lets nobody else read it.
func closedTree(t *testing.T) (bin string) {
	t.Helper()
	root := t.TempDir()
	bin = fakeBin(t, filepath.Join(root, "bin"))
	lib := filepath.Join(root, "lib")
	if err := os.Mkdir(lib, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(root, marker), filepath.Join(lib, "libpq.so.5.17")} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("libpq.so.5.17", filepath.Join(lib, "libpq.so.5")); err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestPublish_CopiesOnceWhatEverybodyCanReadThen(t *testing.T) {
	bin, parent := closedTree(t), t.TempDir()
	copied, err := publish(bin, parent)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Dir(copied), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode()&0o004 == 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if link, err := os.Readlink(filepath.Join(copied, "../lib/libpq.so.5")); link != "libpq.so.5.17" {
		t.Errorf("got a link to %q, %v", link, err)
	}
	if info, err := os.Stat(filepath.Join(copied, "initdb")); err != nil || info.Mode()&0o001 == 0 {
		t.Errorf("initdb can't be run: %v, %v", info, err)
	}
	if again, err := publish(bin, parent); again != copied || err != nil {
		t.Errorf("the second time: got %q, %v, want %q", again, err, copied)
	}
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("got %v, want one copy", left)
	}
}

func TestPublish_RefusesAFolderThatMayHoldOtherThings(t *testing.T) {
	bin, parent := closedTree(t), t.TempDir()
	if err := os.Remove(filepath.Join(bin, "..", marker)); err != nil {
		t.Fatal(err)
	}
	if _, err := publish(bin, parent); err == nil || !strings.Contains(err.Error(), bin) {
		t.Errorf("got %v, want an error that names %s", err, bin)
	}
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("copied %v", left)
	}
}

func TestPublish_TrustsNoFolderThatOthersMayHaveMade(t *testing.T) {
	bin, parent := closedTree(t), t.TempDir()
	copied, err := publish(bin, parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(copied), 0o777); err != nil {
		t.Fatal(err)
	}
	if again, err := publish(bin, parent); err == nil {
		t.Errorf("took %s, which everybody may write to", again)
	}
}
