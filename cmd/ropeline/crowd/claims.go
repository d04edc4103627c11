package crowd

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// claims are what the crowd reads in an access token. The signature is not verified: a visitor has no key, and
// what a token opens is seen by knocking with it.
type claims struct {
	ID          string `json:"jti"` // place id and session id
	Room        string `json:"aud"`
	Issued      int64  `json:"iat"` // s since the Unix epoch
	Expires     int64  `json:"exp"` // s since the Unix epoch
	Number      int64  `json:"num"`
	Generation  int64  `json:"gen"`
	Provisional bool   `json:"prv"`
	Outage      bool   `json:"out"` // given out while the store was away: outside the order
}

var errClaims = errors.New("crowd: not an access token")

func readClaims(token string) (claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, errClaims
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, errClaims
	}
	var c claims
	if err := json.Unmarshal(raw, &c); err != nil || c.ID == "" || c.Expires == 0 {
		return claims{}, errClaims
	}
	return c, nil
}

func (c claims) issued() time.Time  { return time.Unix(c.Issued, 0) }
func (c claims) expires() time.Time { return time.Unix(c.Expires, 0) }
