// Package migrations holds the schema of the booking core, as forward-only steps.
package migrations

import "embed"

// Files are the steps, in the order of their names.
//
//go:embed *.sql
var Files embed.FS
