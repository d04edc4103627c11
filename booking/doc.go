// Package booking is the home of the booking core: seats, stays, orders and payments, for organizers who
// have no ticketing site of their own. It holds no code yet; the waiting room works in front of any site
// without it.
//
// What comes to stand here is an [net/http.Handler] that the edge treats as one more upstream. It is told
// who the customer is and knows nothing of rooms, lines or tokens, so it imports no other package of ours
// but internal ones, and none of ours but cmd imports it.
package booking
