// Package queue keeps one waiting line per room in Redis, and knows every key name and script that does so.
//
// # What it owns
//
// A place is (generation, number): numbers are dense from 1 in each generation and never given twice. Its score,
// generation*2^28 + number, orders the line first come first served, any older generation before any newer one.
// The signed place token ([Sealer]) is the record of a place and Redis only the working copy: a place missing in
// Redis is put back, with its old score, from its token.
//
//	                 join                     batch                  hand-out
//	(visitor) ─────────────▶ waiting ─────────────▶ admitted, unclaimed ─────────▶ session ──▶ used
//	              │             ▲  │                        │                          │
//	              │  next poll  │  │ absent at its turn     │ claim window over        │ exp, end, leave
//	              │             └──┴────────────────────────┘                          ▼
//	              └─ nobody waits and there is room: straight into a session          ended
//
// # Invariants
//
//   - Nobody enters the active set while it holds as many as the active limit; the scripts that add to it compare
//     first, in Redis.
//   - A script that is told a generation other than Redis's own writes nothing ([ErrGeneration]).
//   - An admission under an older term than the newest one seen writes nothing ([ErrStaleTerm]).
//   - A batch of joins or admissions sent twice has the effect of one.
//   - No byte that a client made is part of a key, a member or a score.
//
// All instants are Redis's own ([Clock] carries them to the node). All keys of one room share a hash tag, so a room
// lives on one shard and many rooms spread over a Redis Cluster.
//
// # When Redis is away
//
// Polls are answered from the last snapshot with [Holding]; joins fail with [ErrAway] at once.
package queue
