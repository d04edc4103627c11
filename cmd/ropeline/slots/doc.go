// Package slots gives back the slots of a waiting room that the booking core's customers are done with, so that the next in
// line come in before the sessions end by themselves.
//
// It hears of what becomes of holds by the core's events, and knows neither the core nor the room but by a function each.
//
//	BookingConfirmed, BookingCancelled, BookingExpired, BookingFailed
//	    -> a minute later: does the customer hold anything, or pay?  yes -> nothing (what comes of that tells again)
//	                                                                 no  -> the session ends
//
// Who gives up F5 to take F6 stays inside, and nobody is thrown out over a second hold or in the middle of a payment.
//
// # What it does not promise
//
// What is waiting to be given back is kept in memory. A node that stops, or hears too late, or knows too many customers at
// once gives nothing back: such a session ends by itself when its time is up. Every node hears every event and gives the
// same slot back; to give one back again changes nothing.
package slots
