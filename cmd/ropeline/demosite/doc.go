// Package demosite is a small concert site, the upstream of `ropeline demo`: a start page, an event page with its
// poster, a seat list, a form that buys a seat, a live feed and a slow page. It knows nothing of the waiting room
// beyond what any site could know: it greets a visitor by the X-Ropeline-Place header, gives the place in the room
// back by answering with `X-Ropeline-Session: end`, and counts the requests under its event that came without
// X-Ropeline-Session, of which there should be none.
//
//	GET  /                            start page, open to everybody
//	GET  /assets/...                  style and script, open to everybody
//	GET  /events/spring-tour/         the event
//	GET  .../poster.svg               its poster, open to everybody
//	GET  .../seats                    seats, as JSON when Accept asks for it
//	POST .../buy                      seat=A1: 303 to the receipt, 409 if it is gone
//	GET  .../receipt?seat=A1
//	GET  .../live                     server-sent events: seats left
//	GET  .../slow?for=2s              an answer that takes its time, 30 s at most
//	POST .../finish                   thanks, and the end of the session
//
// It keeps everything in memory: a new Site has all its seats.
package demosite
