package slots

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"ropeline/queue"
)

// Session is a session of a waiting room, as the booking core keeps it with a hold: all that ends it.
type Session struct {
	Place   queue.Place // its id, generation, number and, in a room with an identity rule, digest
	Expires time.Time   // of the access token, whole seconds
}

// prefix tells this form of a session from later ones.
const prefix = "s1"

// String is the session in one word: letters, digits, '-', '_' and '.', or "" for one that nothing can end (such as an
// admission while Redis was away).
func (s Session) String() string {
	if s.Place.ID == "" || s.Place.Number < 1 || s.Place.Generation < 1 {
		return ""
	}
	return strings.Join([]string{prefix, s.Place.ID, strconv.FormatInt(s.Place.Generation, 36), strconv.FormatInt(s.Place.Number, 36),
		s.Place.Digest, strconv.FormatInt(s.Expires.Unix(), 36)}, ".")
}

var errSession = errors.New("slots: not a session")

// ParseSession reads what String wrote.
func ParseSession(text string) (Session, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 6 || parts[0] != prefix || parts[1] == "" {
		return Session{}, errSession
	}
	var numbers [3]int64
	for i, part := range []string{parts[2], parts[3], parts[5]} {
		n, err := strconv.ParseInt(part, 36, 64)
		if err != nil || n < 1 {
			return Session{}, errSession
		}
		numbers[i] = n
	}
	return Session{
		Place:   queue.Place{ID: parts[1], Generation: numbers[0], Number: numbers[1], Digest: parts[4]},
		Expires: time.Unix(numbers[2], 0),
	}, nil
}
