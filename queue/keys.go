package queue

import "strconv"

// keys names every Redis key of one room. The braces are a hash tag: one room, one shard.
type keys struct {
	prefix                                       string
	state, seq, line, active, provisional, ended string
	who, lease, fence, pace, batch               string
	stateToBatch                                 []string // the fixed keys in the order that prelude.lua names them
}

// signingKeys holds the signing keys where no file does: shared by all rooms, so without a hash tag.
const signingKeys = "rope:keys"

func keysOf(room string) keys {
	p := "rope:{" + room + "}:"
	k := keys{
		prefix: p,
		state:  p + "state", seq: p + "seq", line: p + "line:general", active: p + "active",
		provisional: p + "provisional", ended: p + "ended", who: p + "who", lease: p + "lease",
		fence: p + "fence", pace: p + "pace", batch: p + "batch",
	}
	k.stateToBatch = []string{
		k.state, k.seq, k.line, k.active, k.provisional, k.ended, k.who, k.lease, k.fence, k.pace, k.batch,
	}
	return k
}

func (k keys) token(place string) string { return k.prefix + "token:" + place }

func (k keys) used(generation int64) string {
	return k.prefix + "used:" + strconv.FormatInt(generation, 10)
}

func (k keys) here(generation, window int64) string {
	return k.prefix + "here:" + strconv.FormatInt(generation, 10) + ":" + strconv.FormatInt(window, 10)
}

// with returns the fixed keys followed by more: the KEYS of a script.
func (k keys) with(more ...string) []string {
	all := make([]string, 0, len(k.stateToBatch)+len(more))
	return append(append(all, k.stateToBatch...), more...)
}
