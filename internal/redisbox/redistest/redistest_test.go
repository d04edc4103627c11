package redistest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/redisbox/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestEach_RunsScriptsOnAllThreeKinds(t *testing.T) {
	bump := redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)
	kinds := map[string]bool{}
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		kinds[filepath.Base(t.Name())] = true
		key := "rope:{each-test}:seq"
		defer rdb.Del(t.Context(), key)
		if got, err := bump.Run(t.Context(), rdb, []string{key}, 3).Int(); got != 3 || err != nil {
			t.Errorf("got %d, %v, want 3", got, err)
		}
	})
	if !kinds["miniredis"] {
		t.Errorf("ran on %v, want miniredis at least", kinds)
	}
}

// TestPath_WithoutAServer runs TestPath_Inner in an environment that has none.
func TestPath_WithoutAServer(t *testing.T) {
	for _, c := range []struct{ setting, want string }{
		{"ROPELINE_TEST_REDIS=", "--- SKIP"},
		{"ROPELINE_TEST_REDIS=required", "--- FAIL"},
		{"CI=true", "--- FAIL"},
	} {
		inner := exec.Command(os.Args[0], "-test.run=^TestPath_Inner$", "-test.v")
		inner.Env = append(os.Environ(), "CI=", "ROPELINE_TEST_REDIS=", "ROPELINE_REDIS_SERVER=/nowhere/redis-server", c.setting)
		out, _ := inner.CombinedOutput()
		if !strings.Contains(string(out), c.want+": TestPath_Inner") || !strings.Contains(string(out), "no redis-server found") {
			t.Errorf("with %s: got\n%s\nwant %s and the reason", c.setting, out, c.want)
		}
	}
}

func TestPath_Inner(t *testing.T) { redistest.Path(t) }
