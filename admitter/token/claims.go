package token

import (
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

const (
	issuer    = "ropeline"
	tokenType = "ropeline-access+jwt"
)

// Claims are what an access token says. Times are whole seconds; [Authority.Sign] drops the rest.
type Claims struct {
	Room    string // id of the room it opens
	Visitor string // who was admitted
	ID      string // of the place, and so of the session; the same in a renewed token

	Number     int64 // of the place in its generation, from 1; 0 = none
	Generation int64

	Issued  time.Time // zero: now
	Expires time.Time
	Started time.Time // when the session began; zero: Issued

	Provisional bool // lasts only until its visitor comes back with it
	Outage      bool // given out while Redis was away
}

// payload is the claims as they stand in a token. It satisfies [jwt.Claims].
type payload struct {
	Issuer      string `json:"iss"`
	Room        string `json:"aud"`
	Visitor     string `json:"sub"`
	ID          string `json:"jti"`
	Issued      int64  `json:"iat"`
	NotBefore   int64  `json:"nbf"`
	Expires     int64  `json:"exp"`
	Number      int64  `json:"num"`
	Generation  int64  `json:"gen"`
	Started     int64  `json:"sst"`
	Provisional bool   `json:"prv,omitempty"`
	Outage      bool   `json:"out,omitempty"`
}

// payloadOf turns claims into a payload, or returns why they are not fit for one.
func payloadOf(c Claims, now time.Time, maxLife time.Duration) (payload, error) {
	if c.Issued.IsZero() {
		c.Issued = now
	}
	if c.Started.IsZero() {
		c.Started = c.Issued
	}
	p := payload{
		Issuer: issuer, Room: c.Room, Visitor: c.Visitor, ID: c.ID,
		Issued: c.Issued.Unix(), NotBefore: c.Issued.Unix(), Expires: c.Expires.Unix(), Started: c.Started.Unix(),
		Number: c.Number, Generation: c.Generation,
		Provisional: c.Provisional, Outage: c.Outage,
	}
	for _, s := range []string{p.Room, p.Visitor, p.ID} {
		if s == "" || !utf8.ValidString(s) {
			return p, refuse(ErrClaims, "room, visitor and id must be non-empty valid UTF-8")
		}
	}
	for _, n := range []int64{p.Issued, p.Expires, p.Started, p.Number, p.Generation} {
		if n < 0 || n > maxInteger {
			return p, refuse(ErrClaims, "times, number and generation must lie between 0 and 2^53-1")
		}
	}
	if p.Expires <= p.Issued || p.tooLong(maxLife) {
		return p, refuse(ErrClaims, "expiry must come after issue, by no more than the longest life")
	}
	return p, nil
}

func (p *payload) claims() Claims {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	return Claims{
		Room: p.Room, Visitor: p.Visitor, ID: p.ID,
		Number: p.Number, Generation: p.Generation,
		Issued: at(p.Issued), Expires: at(p.Expires), Started: at(p.Started),
		Provisional: p.Provisional, Outage: p.Outage,
	}
}

// tooLong reports whether the token lasts longer than maxLife.
func (p *payload) tooLong(maxLife time.Duration) bool {
	return p.Expires-p.Issued > int64(maxLife/time.Second)
}

// UnmarshalJSON reads the claims of a token strictly: each of them present, of its kind and named once. Claims it does
// not know are passed over, so that tokens of a newer version open the gates of this one.
func (p *payload) UnmarshalJSON(data []byte) error {
	o, err := readObject(data)
	if err != nil {
		return refuse(ErrMalformed, "the claims are "+err.Error())
	}
	for _, name := range []string{"iss", "aud", "sub", "jti", "iat", "nbf", "exp", "num", "gen", "sst", "prv", "out"} {
		if o.misspelled(name) {
			return refuse(ErrMalformed, name+" is written in another case")
		}
	}
	for _, c := range []struct {
		name string
		to   *string
	}{{"iss", &p.Issuer}, {"aud", &p.Room}, {"sub", &p.Visitor}, {"jti", &p.ID}} {
		var ok bool
		if *c.to, ok = o.text(c.name); !ok {
			return refuse(ErrMalformed, c.name+" must be a non-empty string")
		}
	}
	for _, c := range []struct {
		name string
		to   *int64
	}{
		{"iat", &p.Issued}, {"nbf", &p.NotBefore}, {"exp", &p.Expires},
		{"num", &p.Number}, {"gen", &p.Generation}, {"sst", &p.Started},
	} {
		var ok bool
		if *c.to, ok = o.count(c.name); !ok {
			return refuse(ErrMalformed, c.name+" must be an integer from 0 to 2^53-1")
		}
	}
	for _, c := range []struct {
		name string
		to   *bool
	}{{"prv", &p.Provisional}, {"out", &p.Outage}} {
		var ok bool
		if *c.to, ok = o.flag(c.name); !ok {
			return refuse(ErrMalformed, c.name+" must be true or false")
		}
	}
	if p.Expires <= p.Issued {
		return refuse(ErrMalformed, "exp must come after iat")
	}
	return nil
}

// GetExpirationTime, like the five below, is how golang-jwt reads a claim.
func (p *payload) GetExpirationTime() (*jwt.NumericDate, error) { return date(p.Expires), nil }

// GetIssuedAt returns iat.
func (p *payload) GetIssuedAt() (*jwt.NumericDate, error) { return date(p.Issued), nil }

// GetNotBefore returns nbf.
func (p *payload) GetNotBefore() (*jwt.NumericDate, error) { return date(p.NotBefore), nil }

// GetIssuer returns iss.
func (p *payload) GetIssuer() (string, error) { return p.Issuer, nil }

// GetSubject returns sub.
func (p *payload) GetSubject() (string, error) { return p.Visitor, nil }

// GetAudience returns aud.
func (p *payload) GetAudience() (jwt.ClaimStrings, error) { return jwt.ClaimStrings{p.Room}, nil }

func date(seconds int64) *jwt.NumericDate { return jwt.NewNumericDate(time.Unix(seconds, 0)) }
