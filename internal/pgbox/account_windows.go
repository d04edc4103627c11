package pgbox

import (
	"io/fs"

	"ropeline/internal/process"
)

// account is nil: Windows has no root, and Postgres gives up an administrator's rights by itself.
func account() (*process.Account, error) { return nil, nil }

// owned isn't asked: nothing is copied for another account.
func owned(fs.FileInfo) bool { return false }
