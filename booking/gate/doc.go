// Package gate is a layer of Redis in front of the holds of the booking core: it turns away who would lose a seat for
// certain, so that a crowd after few seats doesn't queue on row locks in Postgres. It also bounds how often one customer
// may try.
//
// A mark on a seat is the key seat:{EVENT}:CODE with the id of the hold that has it. It carries its own expiry. The braces
// are a hash tag: the seats of an event lie in one slot of a Cluster, and one script marks several of them or none.
//
// # Invariants
//
//   - The gate refuses or lets pass; it never grants. Whoever it lets pass still has to get the seats from Postgres.
//   - Only the hold whose id a mark carries can prolong, sell or remove it.
//   - A command is sent once. The client doesn't repeat one whose answer was lost: marks that are set again after they
//     were removed would keep a free seat from everybody.
//   - No key carries a customer's id; the limit's key has a digest of it.
//
// # When Redis is away
//
// The gate opens. A call that gets no answer within [Config].Timeout fails with [ErrAway] and the caller goes on to
// Postgres. From then on calls for the same event fail at once, and one call a second tries Redis again: a dead Redis costs
// a lone caller one timeout a second. One call without an answer doesn't count while others are answered. Marks that could
// not be removed meanwhile are removed as soon as Redis answers again, before this node refuses anybody because of them.
// The limit is then counted on this node alone, so a customer has it once on each node.
//
// A process that dies between marking and committing leaves its marks until they expire.
package gate
