package main

import (
	"net/http"

	"ropeline/admitter/token"
	"ropeline/booking"
	"ropeline/cmd/ropeline/config"
	"ropeline/cmd/ropeline/slots"
	"ropeline/queue"
)

// admissions tells the booking core whom an access token lets in. It believes nothing else of a request.
type admissions struct {
	verify func(room, tok string) (token.Claims, error)
	room   func(id string) (config.Room, bool)
	ended  func(room, session string) bool // whether a session was ended before its token
}

// identify reads the token of X-Queue-Token. The room is the one that the token is for: that it says so is part of what is
// verified.
func (a admissions) identify(r *http.Request) (booking.Admission, bool) {
	tokens := r.Header["X-Queue-Token"]
	if len(tokens) != 1 {
		return booking.Admission{}, false
	}
	room, known := a.room(token.RoomOf(tokens[0]))
	if !known {
		return booking.Admission{}, false
	}
	claims, err := a.verify(room.ID, tokens[0])
	if err != nil || a.ended(room.ID, claims.ID) {
		return booking.Admission{}, false
	}
	return booking.Admission{
		Room: room.ID, Customer: claims.Visitor, Session: sessionOf(room, claims).String(), Channels: channelsOf(room),
	}, true
}

// sessionOf is what ends the session of a token.
func sessionOf(room config.Room, c token.Claims) slots.Session {
	s := slots.Session{Place: queue.Place{ID: c.ID, Generation: c.Generation, Number: c.Number}, Expires: c.Expires}
	if room.Identity != "" {
		s.Place.Digest = c.Visitor
	}
	if c.Outage { // it has no place
		return slots.Session{}
	}
	return s
}

func channelsOf(room config.Room) booking.Channels {
	var set booking.Channels
	for _, n := range room.Channels {
		set |= 1 << n
	}
	return set
}
