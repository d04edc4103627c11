package booking

import (
	_ "embed" // the statements
)

// The statements that decide something are files of their own; each says what it does and which locks it takes.
var (
	//go:embed sql/hold.sql
	holdOneSQL string
	//go:embed sql/checkout.sql
	checkoutSQL string
	//go:embed sql/paid.sql
	paidSQL string
	//go:embed sql/unpaid.sql
	unpaidSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/cancel.sql
	cancelSQL string
	//go:embed sql/extend.sql
	extendSQL string
	//go:embed sql/expire.sql
	expireSQL string
	//go:embed sql/audit.sql
	auditSQL string
)
