// Package admitter lets the waiting visitors of a room through: one leader per room, in batches, at the rate and up to
// the active limit that the organizer sets.
//
// # What it owns
//
// Leadership ([Admitter.Run] takes the lease and keeps it), the choice of who is next, and the order of a tick: look,
// pick, sign, commit, publish. Access tokens are made by package token, everything in Redis is done by package queue.
//
// # Invariants
//
//   - Each tenure has a larger term; Redis compares it in the script that admits, so a leader that was paused and goes
//     on after its lease has passed to another admits nobody.
//   - Signing comes before committing, and a commit is all or nothing for each visitor: a crash between any two
//     steps loses nobody and admits nobody twice.
//   - Who is absent at its turn costs no capacity and no time: it is passed over in the same tick, and served next when
//     it is back.
//
// # Why half a second
//
// A tick comes every 500 ms and the budget holds at most one second's worth. With a tick of a whole second every late tick
// would lose what the budget cannot hold, and the rate would fall short by the jitter.
//
// # When Redis is away
//
// Nobody is admitted. The leader goes on trying; the budget saves nothing up.
package admitter
