package token

import (
	"encoding/base64"
	"strings"
)

// RoomOf returns the room that tok says it is for, and "" where it says none. Nothing of it has been verified: it may choose
// the room to verify a token for, and nothing else.
func RoomOf(tok string) string {
	if len(tok) > maxSize {
		return ""
	}
	_, rest, _ := strings.Cut(tok, ".")
	claims, _, ok := strings.Cut(rest, ".")
	if !ok || !base64url(claims) {
		return ""
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(claims)
	if err != nil {
		return ""
	}
	o, err := readObject(data)
	if err != nil {
		return ""
	}
	room, _ := o.text("aud")
	return room
}
