package queue

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Score shape: generation * 2^28 + number, below 2^53 so that Redis (a double) keeps it exact.
const (
	numberBits    = 28
	maxNumber     = 1<<numberBits - 1
	maxGeneration = 1<<25 - 1
)

// generationEpoch is the beginning of 2026 in the generation's unit, 10 s since the Unix epoch.
const generationEpoch = 1767225600 / 10

// Place is a visitor's spot in a room's line.
type Place struct {
	ID         string // 16 bytes of base64url, 96 random bits; also the id of the session it is exchanged for
	Generation int64  // 1..2^25-1
	Number     int64  // 1..2^28-1, dense in its generation
	Lane       uint8  // 0, the general lane
	Issued     time.Time
	Digest     string // of the customer's identity (see [Sealer.Digests]); "" where the room has no identity rule
}

// Score orders the line: the lower, the earlier.
func (p Place) Score() int64 { return p.Generation<<numberBits | p.Number }

func placeAt(id string, score int64) Place {
	return Place{ID: id, Generation: score >> numberBits, Number: score & maxNumber}
}

// NewID makes the id of a place.
func NewID() string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// PlaceLife is how long a place token is good for.
const PlaceLife = 24 * time.Hour

// ErrPlaceToken means a place token that this room's nodes did not make, or one that is damaged or too old.
var ErrPlaceToken = errors.New("queue: not a place token of this room")

// Shape of a place token: "rp1." and base64url of version, key, lane, flags, generation, number, issued, expires,
// id, digest if flagged, room, MAC.
const (
	placePrefix  = "rp1."
	idBytes      = 12
	digestBytes  = 16
	macBytes     = 16 // HMAC-SHA256 cut to 128 bits (RFC 2104 section 5)
	placeFixed   = 1 + 4 + 1 + 1 + 4*4 + idBytes
	flagIdentity = 1
)

// SealKey is one key for place tokens, named by the id of the signing key that it was derived from.
type SealKey struct {
	ID  string
	Key []byte // 32 bytes
}

// Sealer makes and opens place tokens and identity digests. The zero value can't be used; it is safe for concurrent use.
type Sealer struct {
	keys []sealKey // the first seals, all open
}

type sealKey struct {
	id          [4]byte // of SHA-256(ID)
	place, whom []byte
}

// NewSealer needs at least one key; the first one seals.
func NewSealer(given []SealKey) (*Sealer, error) {
	if len(given) == 0 {
		return nil, errors.New("queue: no key for place tokens")
	}
	s := &Sealer{}
	for _, g := range given {
		if len(g.Key) < 32 {
			return nil, fmt.Errorf("queue: key %s for place tokens has %d bytes, 32 are needed", g.ID, len(g.Key))
		}
		sum := sha256.Sum256([]byte(g.ID))
		s.keys = append(s.keys, sealKey{
			id:    [4]byte(sum[:4]),
			place: mac(g.Key, []byte("place"), sha256.Size),
			whom:  mac(g.Key, []byte("identity"), sha256.Size),
		})
	}
	return s, nil
}

// Seal makes the place token of p in room.
func (s *Sealer) Seal(room string, p Place) string {
	key := s.keys[0]
	b := make([]byte, 0, placeFixed+digestBytes+len(room)+macBytes)
	b = append(b, 1)
	b = append(b, key.id[:]...)
	var flags byte
	digest, _ := base64.RawURLEncoding.DecodeString(p.Digest)
	if len(digest) == digestBytes {
		flags |= flagIdentity
	}
	b = append(b, p.Lane, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Generation))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Number))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Issued.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Issued.Add(PlaceLife).Unix()))
	id, _ := base64.RawURLEncoding.DecodeString(p.ID)
	b = append(b, id...)
	if flags&flagIdentity != 0 {
		b = append(b, digest...)
	}
	b = append(b, room...)
	b = append(b, mac(key.place, b, macBytes)...)
	return placePrefix + base64.RawURLEncoding.EncodeToString(b)
}

// Open returns the place of a token of room that has not expired at now, else [ErrPlaceToken].
func (s *Sealer) Open(room, token string, now time.Time) (Place, error) {
	body, ok := strings.CutPrefix(token, placePrefix)
	if !ok || len(body) > base64.RawURLEncoding.EncodedLen(placeFixed+digestBytes+len(room)+macBytes) {
		return Place{}, ErrPlaceToken
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(b) < placeFixed+macBytes || b[0] != 1 || strings.ContainsAny(body, "\r\n") {
		return Place{}, ErrPlaceToken
	}
	signed, sum := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !s.sealed(signed, sum) {
		return Place{}, ErrPlaceToken
	}
	p := Place{
		Lane:       b[5],
		Generation: int64(binary.BigEndian.Uint32(b[7:])),
		Number:     int64(binary.BigEndian.Uint32(b[11:])),
		Issued:     time.Unix(int64(binary.BigEndian.Uint32(b[15:])), 0),
		ID:         base64.RawURLEncoding.EncodeToString(b[23 : 23+idBytes]),
	}
	expires := time.Unix(int64(binary.BigEndian.Uint32(b[19:])), 0)
	rest := signed[placeFixed:]
	if b[6]&flagIdentity != 0 {
		if len(rest) < digestBytes {
			return Place{}, ErrPlaceToken
		}
		p.Digest = base64.RawURLEncoding.EncodeToString(rest[:digestBytes])
		rest = rest[digestBytes:]
	}
	if string(rest) != room || !now.Before(expires) || p.Number < 1 || p.Number > maxNumber ||
		p.Generation < 1 || p.Generation > maxGeneration {
		return Place{}, ErrPlaceToken
	}
	return p, nil
}

func (s *Sealer) sealed(signed, sum []byte) bool {
	for _, key := range s.keys {
		if [4]byte(signed[1:5]) == key.id {
			return hmac.Equal(sum, mac(key.place, signed, macBytes))
		}
	}
	return false
}

// Digests returns the digests of a customer's identity in room, one for each key, the newest first: 22 bytes of
// base64url, from which nobody without the keys can learn the identity.
func (s *Sealer) Digests(room, identity string) []string {
	all := make([]string, len(s.keys))
	for i, key := range s.keys {
		all[i] = base64.RawURLEncoding.EncodeToString(mac(key.whom, []byte(room+"\x00"+identity), digestBytes))
	}
	return all
}

func mac(key, message []byte, size int) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)[:size]
}
