//go:build unix

package pgbox

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"ropeline/internal/process"
)

// account is whom the programs run as: nil for as we do, and where that is root, which Postgres refuses, the
// user postgres or else nobody.
func account() (*process.Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &process.Account{UID: uint32(uid), GID: uint32(gid)}, nil
		}
	}
	return nil, errors.New("root can't run Postgres, and there is no user postgres or nobody to do it instead")
}

// owned says whether a file is ours.
func owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
