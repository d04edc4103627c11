// Package outbox carries the events of the booking core from bk.outbox, where the transaction that made the change wrote
// them, to the other nodes and to a broker.
//
//	writer ─INSERT─> bk.outbox ─Relay─┬─NOTIFY─> Feed of every node     (seat maps, slots of the waiting room)
//	                                  └─Publish─> Sink, then DELETE     (Kafka)
//
// # Invariants
//
//   - What was committed is told and published at least once; what was rolled back never is. A row is deleted by the
//     transaction that told of it, after the broker's acknowledgement. Consumers drop repetitions by [Event.ID].
//   - Events of one key come in the order of their writing, as far as their writers waited for one another: those of one
//     booking, and those of one seat within an event. Of two writers that did not wait, the later to commit may come second.
//   - Nobody keeps a position in seq: numbers are given out before the commit, so a lower one may appear after a higher one.
//     What is in the table is what is left to do.
//   - An event that the broker refuses for good stops its own key and no other.
//
// # A row's life
//
//	written ──told and published in one transaction──────────────────────> gone     the broker is near
//	written ──told──> told ──published──> gone                                      the broker was away or slow
//	written ──told──> told ──refused──> stuck                                       until somebody deletes it or clears stuck
//
// Rows fall into four shards by the hash of their key. Each node runs a [Relay]; an advisory lock that ends with its
// transaction lets one at a time tell of a shard, and another one at a time publish it. The locks save work. Should two
// relays publish a shard at once, because one was thought dead, each still starts at the oldest row that is left and deletes
// only what was acknowledged: consumers see repetitions, and first occurrences in order.
//
// # Without its stores
//
// Broker away: rows stay, nodes hear of them all the same, and the backlog goes out in order once the broker is back.
// Postgres away: nothing new can be written, and the relay waits. No node listening: rows are not kept for one; a [Feed] that
// connects starts with Reset. Transactions of the relay don't wait for the disk: after a crash of Postgres the last events
// may come twice.
package outbox
