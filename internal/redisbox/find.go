package redisbox

import (
	"os"
	"os/exec"
)

// PathVariable names the environment variable that, when set, decides which server binary is used.
const PathVariable = "ROPELINE_REDIS_SERVER"

// Find returns the path of a Redis server binary: the value of [PathVariable] where it is set, and
// otherwise the first of redis-server and valkey-server in PATH. ok is false when there is none, and also
// when the variable names something that can't be run: then no other server is looked for.
func Find() (path string, ok bool) {
	if named := os.Getenv(PathVariable); named != "" {
		path, err := exec.LookPath(named)
		return path, err == nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}
