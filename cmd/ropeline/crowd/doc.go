// Package crowd is a simulated crowd in front of a waiting room: people who arrive in a burst, keep their
// cookies, poll when they are told to, reload, open a second tab, leave, lose their network and come back,
// and cheats who knock without a token. It drives any address over HTTP and judges the room only by what
// its clients hold in their hands.
//
//	arrive ──page──▶ join ──201──▶ wait ──admitted──▶ inside ──▶ end the session, or let it run out
//	   │                            │  ▲
//	   │ passed at once             │  └── reload, second tab, silence and return
//	   └────────▶ inside            ├──▶ left (DELETE)
//	                                └──▶ gave up, or lost (the room no longer knows the place)
//	cheat: knock, knock, knock; every knock must be refused
//
// With [Config.Buy] those inside shop by the booking API: they look for seats, hold some, swap or extend the hold, and then
// pay, are declined once, pay twice, cancel, give the hold back or walk away from it. What they were told of their seats is
// compared in the end: no seat may have been in two hands at once. Payments on the provider's page press its buttons, so
// nothing but the sandbox takes them.
//
// [Run] runs the crowd and returns a [Report]; [Report.Broken] names every promise that did not hold:
// admission order, the active limit, a place that got worse, a request that passed without a token, a place
// served twice, a visitor lost, an admitted visitor turned away.
//
// # Why the clients are the judges
//
// A room that loses or doubles a place is the last one to notice it. So nothing here asks the room's store:
// the access token in a visitor's hand says when it was issued, for which place, until when (its payload is
// read without verifying it), and the visitor's own clock says when it arrived. Every check errs on the side
// of the room, so a breach that is reported is one.
package crowd
