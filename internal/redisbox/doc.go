// Package redisbox starts Redis servers for development, the demo and tests: one server, a cluster of
// three masters, a master with a replica and a sentinel, or an in-process stand-in.
//
// Every server listens on 127.0.0.1 only, on a port chosen here, keeps its files in a temporary folder
// of its own and writes no data to disk: stopping it loses everything it held. It runs in its own process
// group, so an interrupt typed at a terminal reaches only us and we decide when it stops, and it ends
// when this process does, however that ends.
//
// Nothing here is meant to hold the line of a real sale.
package redisbox
