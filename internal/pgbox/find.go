package pgbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PathVariable names the environment variable that, when set, decides which folder of binaries is used.
const PathVariable = "ROPELINE_PG_BIN"

// places are where packages keep their binaries outside of PATH, each major in a folder of its own.
var places = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian
	"/usr/pgsql-*/bin",                                   // the packages of postgresql.org for Red Hat
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on ARM
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
}

// Find returns a folder that has the programs postgres and initdb: the value of [PathVariable] where it is
// set, otherwise the one of the postgres in PATH, otherwise the newest in the usual places. ok is false when
// there is none, and also when the variable names a folder without them: then nothing else is looked at.
func Find() (bin string, ok bool) {
	if named := os.Getenv(PathVariable); named != "" {
		abs, err := filepath.Abs(named)
		if err != nil || !complete(abs) {
			return "", false
		}
		return abs, true
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// Postgres finds its other files from where it really is.
		if real, err := filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(real)) {
			return filepath.Dir(real), true
		}
	}
	for _, pattern := range places {
		folders, _ := filepath.Glob(pattern) // the only error is that of a bad pattern
		if bin, ok := newest(folders); ok {
			return bin, true
		}
	}
	return "", false
}

// newest picks the complete folder with the highest number in its path.
func newest(folders []string) (bin string, ok bool) {
	folders = slices.DeleteFunc(folders, func(folder string) bool { return !complete(folder) })
	if len(folders) == 0 {
		return "", false
	}
	return slices.MaxFunc(folders, func(a, b string) int { return number(a) - number(b) }), true
}

// number is the last number in the name of the folder that holds bin: 17 in postgresql@17/bin. 0 if it has none.
func number(bin string) int {
	name := filepath.Base(filepath.Dir(bin))
	digits := name[strings.LastIndexFunc(name, func(r rune) bool { return r < '0' || r > '9' })+1:]
	n, _ := strconv.Atoi(digits)
	return n
}

func complete(bin string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			return false
		}
	}
	return true
}
