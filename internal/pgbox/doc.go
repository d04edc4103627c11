// Package pgbox starts Postgres servers for development, the demo and tests, with nothing installed but the
// binaries: no service, no root, no socket folder.
//
// Every server listens on 127.0.0.1 only, on a port chosen here. It runs in its own process group, so an
// interrupt typed at a terminal reaches only us and we decide when it stops, and it ends when this process
// does, however that ends. The superuser is "ropeline", the encoding UTF-8 and the locale C.
//
// Postgres refuses to run as root. Started by root, it runs as the user postgres or nobody, and its data
// folder belongs to that user.
//
// A server in a temporary folder is gone when it is stopped. One with a folder of its own is durable, asks
// for a password that only we know, and starts again where it was; still nobody looks after it, makes
// copies or upgrades it: nothing here is meant to hold the bookings of a real sale.
package pgbox
