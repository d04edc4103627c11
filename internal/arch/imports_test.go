package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "ropeline"

// mayUse lists, for each part of the tree, the other parts that it may reach, directly or through others.
// Packages of one part may always reach each other.
var mayUse = map[string][]string{
	"cmd":             {"proxy", "admitter", "admitter/token", "queue", "booking", "web", "configs", "internal"},
	"proxy":           {"queue", "admitter/token", "web", "internal"},
	"admitter":        {"queue", "admitter/token", "internal"},
	"admitter/token":  {"internal/recent"},
	"queue":           {"internal"},
	"booking":         {"booking/outbox", "booking/payment", "internal"},
	"booking/gate":    {"internal"},
	"booking/outbox":  {"internal"},
	"booking/payment": {"internal"},
	"web":             {},
	"configs":         {},
	"deploy":          {},
	"internal":        {},
}

// homes lists, for each module that has one home in the tree, the parts that may name it.
var homes = map[string][]string{
	"github.com/spf13/":                {"cmd"},
	"github.com/redis/go-redis/":       {"queue", "booking/gate", "internal/redisbox", "internal/sendonce", "cmd"},
	"github.com/alicebob/miniredis/":   {"internal/redisbox"},
	"github.com/golang-jwt/":           {"admitter/token"},
	"github.com/jackc/pgx/":            {"booking", "internal/pgbox", "cmd"},
	"github.com/pressly/goose/":        {"booking"},
	"github.com/twmb/franz-go":         {"booking/outbox"},
	"github.com/stripe/":               {"booking/payment"},
	"github.com/standard-webhooks/":    {"booking/payment"},
	"github.com/go-redis/redis_rate/":  {"booking/gate"},
	"github.com/fsnotify/":             {"cmd"},
	"github.com/go-viper/mapstructure": {"cmd"},
}

type pkg struct {
	ImportPath    string
	Imports, Deps []string
}

func TestImports_PartsReachOnlyWhatTheyMay(t *testing.T) {
	for _, p := range tree(t) {
		from := part(p.ImportPath)
		allowed, known := mayUse[from]
		if !known {
			t.Errorf("%s belongs to no part that the rules name", p.ImportPath)
		}
		for _, dep := range p.Deps {
			to := part(dep)
			if !ours(dep) || to == from || within(inTree(dep), allowed) {
				continue
			}
			t.Errorf("%s reaches %s: %s may use only %v", p.ImportPath, dep, from, allowed)
		}
	}
}

func TestImports_EachForeignModuleStaysInItsHome(t *testing.T) {
	for _, p := range tree(t) {
		for _, imported := range p.Imports {
			for prefix, parts := range homes {
				if strings.HasPrefix(imported, prefix) && !within(inTree(p.ImportPath), parts) {
					t.Errorf("%s imports %s, whose home is %v", p.ImportPath, imported, parts)
				}
			}
		}
	}
}

func TestImports_NothingThatShipsKnowsTheTestingPackage(t *testing.T) {
	for _, p := range tree(t) {
		if strings.HasPrefix(p.ImportPath, module+"/cmd/") && slices.Contains(p.Deps, "testing") {
			t.Errorf("%s reaches package testing", p.ImportPath)
		}
	}
}

// tree lists the packages of this module, without their tests.
func tree(t *testing.T) []pkg {
	t.Helper()
	readSources(t)
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if ours(p.ImportPath) {
			packages = append(packages, p)
		}
	}
	if len(packages) < len(mayUse) {
		t.Fatalf("go list names only %d packages of ours", len(packages))
	}
	return packages
}

// readSources looks at every Go file, so that a change to any of them counts as a change to this test,
// whose result go test would otherwise take from its cache.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") {
			_, err = os.Stat(name)
		}
		if errors.Is(err, fs.ErrNotExist) { // a build under way elsewhere in the checkout cleans up
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ours(importPath string) bool { return strings.HasPrefix(importPath, module+"/") }

// inTree is the folder of a package of ours.
func inTree(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

// part is the row of mayUse that a package of ours falls under: its folder or the nearest one above it.
func part(importPath string) string {
	for folder := inTree(importPath); folder != "."; folder = path.Dir(folder) {
		if _, named := mayUse[folder]; named {
			return folder
		}
	}
	return inTree(importPath)
}

// within says whether the folder is one of the parts or lies under one.
func within(folder string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool {
		return folder == p || strings.HasPrefix(folder, p+"/")
	})
}
