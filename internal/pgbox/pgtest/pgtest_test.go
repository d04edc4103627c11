package pgtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"ropeline/internal/pgbox/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestServer_IsOneForAllTests(t *testing.T) {
	if first, second := pgtest.Server(t), pgtest.Server(t); first.URL() != second.URL() {
		t.Error("got two servers")
	}
}

func TestServer_IsTheOneThatTheEnvironmentNames(t *testing.T) {
	const there = "postgres://me@db.test/main"
	t.Setenv("ROPELINE_POSTGRES_URL", there)
	if got := pgtest.Server(t).URL(); got != there {
		t.Errorf("got %s, want %s", got, there)
	}
}

// TestBin_WithoutAServer runs TestBin_Inner in an environment that has none.
func TestBin_WithoutAServer(t *testing.T) {
	for _, c := range []struct{ setting, want string }{
		{"ROPELINE_TEST_POSTGRES=", "--- SKIP"},
		{"ROPELINE_TEST_POSTGRES=required", "--- FAIL"},
		{"CI=true", "--- FAIL"},
	} {
		inner := exec.Command(os.Args[0], "-test.run=^TestBin_Inner$", "-test.v")
		inner.Env = append(os.Environ(), "CI=", "ROPELINE_TEST_POSTGRES=", "ROPELINE_PG_BIN=/nowhere", c.setting)
		out, _ := inner.CombinedOutput()
		if !strings.Contains(string(out), c.want+": TestBin_Inner") || !strings.Contains(string(out), "no postgres found") {
			t.Errorf("with %s: got\n%s\nwant %s and the reason", c.setting, out, c.want)
		}
	}
}

func TestBin_Inner(t *testing.T) { pgtest.Bin(t) }
