// Package api speaks HTTP for the booking core: events and seats, holds, payment pages, orders and the callbacks of payment
// providers, as docs/booking-api.md and the OpenAPI file that it serves describe them.
//
// # Who asks
//
// A client can be two things at once. An [booking.Admission] says that a waiting room let it in; [Config].Identify reads it
// from the access token, and nothing else that a client says of itself counts. A customer key is given out with each hold,
// as a header and as a cookie, and proves later that an order is the client's own.
//
//   - A path with /holds asks for an admission of a room of the event, else 403 "Not admitted": also where the event or the
//     hold doesn't exist, so that who was not let in learns nothing. An event without rooms asks for none; the customer
//     is then the key's, or a new one.
//   - Orders and bookings are reached by the admission's customer or that of any key. No token is needed.
//   - Seats, events, layouts and callbacks are for everybody; the confirm routes are for who knows the service token.
//
// # Addresses
//
// Every path exists under /v1 and without it. /showtimes/{id} is /events/{id}, and /orders/{id} is /bookings/{id}, with the
// words of older clients (see words.go). A path matches byte by byte and undecoded: an escape, an empty segment or a capital
// letter in it makes it another path, which is no one's.
//
// # Errors
//
// One function turns a cause into a problem (RFC 9457), in problem.go. The client gets fixed words; the log gets the error
// where it is ours. Tokens, customer keys and bodies are never logged.
package api
