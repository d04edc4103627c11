// Package sandbox is a payment provider without money, for trying out and for tests: a small server with pages on which
// nobody really pays, and the [payment.Provider] that talks to it.
//
// The server can do what real ones do at the worst moment. What is posted to a page says how the payment goes: its callback
// comes late, twice, out of order or never, or the amount is wrong ([How]). [Behaviour] makes the calls of the shop fail,
// or work and lose their answers.
//
//	open -> paid       on its page, also after its time, as long as it was not closed
//	open -> declined   on its page
//	open -> closed     by the shop
//
// With a [ServerConfig.File] the server keeps what it took, and the callbacks that nobody has acknowledged, over a restart.
package sandbox
