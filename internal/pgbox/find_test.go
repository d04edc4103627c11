package pgbox

import (
	"os"
	"path/filepath"
	"testing"
)

// fakeBin makes dir a folder with the programs of a server.
func fakeBin(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind_TheVariableDecides(t *testing.T) {
	dir := t.TempDir()
	inPath, named := fakeBin(t, filepath.Join(dir, "path")), fakeBin(t, filepath.Join(dir, "named"))
	t.Setenv("PATH", inPath)
	for _, c := range []struct {
		variable, bin string
		ok            bool
	}{
		{"", inPath, true},
		{named, named, true},
		{filepath.Join(dir, "absent"), "", false},
	} {
		t.Setenv(PathVariable, c.variable)
		if bin, ok := Find(); bin != c.bin || ok != c.ok {
			t.Errorf("with %q: got %q, %v, want %q, %v", c.variable, bin, ok, c.bin, c.ok)
		}
	}
}

func TestFind_FollowsALinkInPathToWhereTheProgramsAre(t *testing.T) {
	dir := t.TempDir()
	bin, links := fakeBin(t, filepath.Join(dir, "bin")), filepath.Join(dir, "links")
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(bin, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(PathVariable, "")
	t.Setenv("PATH", links)
	if got, ok := Find(); got != bin || !ok {
		t.Errorf("got %q, %v, want %q", got, ok, bin)
	}
}

func TestNewest_ComparesMajorsAsNumbersAndPassesOverWhatIsNotComplete(t *testing.T) {
	dir := t.TempDir()
	var folders []string
	for _, name := range []string{"9.6", "postgresql@17", "15", "pgsql-16"} {
		folders = append(folders, fakeBin(t, filepath.Join(dir, name, "bin")))
	}
	want := folders[1]
	if got, ok := newest(append(folders, filepath.Join(dir, "18", "bin"))); got != want || !ok {
		t.Errorf("got %q, %v, want %q", got, ok, want)
	}
	if got, ok := newest(nil); ok {
		t.Errorf("got %q among none", got)
	}
}
