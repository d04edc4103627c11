package crowd

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// loot is what honest visitors leave lying about for cheats to try: each the latest of its kind, nil until there
// is one. Safe for concurrent use.
type loot struct {
	live  atomic.Pointer[string] // an access token that opens the gate
	place atomic.Pointer[string] // a place token
	ended atomic.Pointer[endedToken]
}

// endedToken is an access token whose session the edge agreed to end.
type endedToken struct {
	token string
	at    time.Time
}

// endedFor is how long after its end a session must be refused on every node: the age of a snapshot, with room.
const endedFor = 5 * time.Second

// knock is one try to get in without a token. It never is a navigation by GET, which a room with space may
// rightly admit at once. A kind that has nothing to try yet returns false.
type knock struct {
	name string
	make func(v *visitor) (request, bool)
	api  bool // to the booking API: an answer that speaks of seats shows that the request came through
}

// shopKnocks are tries to hold seats without a token: the booking API is not behind the gate, so it has to refuse them itself.
var shopKnocks = []knock{
	{"hold", func(v *visitor) (request, bool) { return v.bareHold("/v1"), true }, true},
	{"hold by the older path", func(v *visitor) (request, bool) { return v.bareHold(""), true }, true},
	{"hold with made-up visitor headers", func(v *visitor) (request, bool) {
		req := v.bareHold("/v1")
		for _, name := range []string{"X-Ropeline-Visitor", "X-Ropeline-Session", "X-Ropeline-Place"} {
			req.header.Set(name, "1")
		}
		req.header.Set("X-Ropeline-Room", v.room)
		return req, true
	}, true},
	{"hold with a forged token", func(v *visitor) (request, bool) {
		req := v.bareHold("/v1")
		req.header.Set("X-Queue-Token", v.forge(map[string]any{"alg": "HS256", "typ": accessType, "kid": "1"}, nil, []byte("a key nobody trusts")))
		return req, true
	}, true},
	{"checkout of a hold that nobody has", func(v *visitor) (request, bool) {
		req := v.bareHold("/v1")
		req.target = "/v1/holds/018f0000-0000-7000-8000-000000000000/checkout"
		return req, true
	}, true},
}

// bareHold asks for a seat as a script would, without any token.
func (v *visitor) bareHold(version string) request {
	req := v.bare(http.MethodPost)
	req.target = version + v.eventAPI + "/holds"
	req.header.Set("Content-Type", "application/json")
	req.header.Set("Idempotency-Key", fmt.Sprintf("cheat-%x", v.rng.Uint64()))
	req.body = `{"seats":["A1"]}`
	return req
}

// knocks are the tries that this crowd knows.
func (c *crowd) knocks() []knock {
	if c.cfg.Buy {
		return slices.Concat(gateKnocks, shopKnocks)
	}
	return gateKnocks
}

// gateKnocks are the tries to get past the gate, spellings of the path aside.
var gateKnocks = []knock{
	{"fetch", func(v *visitor) (request, bool) { return v.bare(http.MethodGet), true }, false},
	{"form post", func(v *visitor) (request, bool) {
		req := v.bare(http.MethodPost)
		req.header.Set("Sec-Fetch-Mode", "navigate")
		req.header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.body = "seat=A1"
		return req, true
	}, false},
	{"put", func(v *visitor) (request, bool) { return v.bare(http.MethodPut), true }, false},
	{"websocket", func(v *visitor) (request, bool) {
		req := v.bare(http.MethodGet)
		req.header.Set("Connection", "Upgrade")
		req.header.Set("Upgrade", "websocket")
		req.header.Set("Sec-WebSocket-Version", "13")
		req.header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		return req, true
	}, false},
	{"made-up visitor headers", func(v *visitor) (request, bool) {
		req := v.bare(http.MethodGet)
		for _, name := range []string{"X-Ropeline-Visitor", "X-Ropeline-Session", "X-Ropeline-Place"} {
			req.header.Set(name, "1")
		}
		req.header.Set("X-Ropeline-Room", v.room)
		return req, true
	}, false},
	{"token without a signature", func(v *visitor) (request, bool) {
		return v.holding(v.forge(map[string]any{"alg": "none", "typ": accessType}, nil, nil)), true
	}, false},
	{"token signed with another key", func(v *visitor) (request, bool) {
		return v.holding(v.forge(map[string]any{"alg": "HS256", "typ": accessType, "kid": "1"}, nil, []byte("a key nobody trusts"))), true
	}, false},
	{"expired token", func(v *visitor) (request, bool) {
		past := map[string]any{"exp": time.Now().Add(-time.Hour).Unix(), "iat": time.Now().Add(-2 * time.Hour).Unix()}
		return v.holding(v.forge(map[string]any{"alg": "HS256", "typ": accessType, "kid": "1"}, past, []byte("a key nobody trusts"))), true
	}, false},
	{"token of another room", func(v *visitor) (request, bool) {
		token := v.loot.live.Load()
		if token == nil {
			return request{}, false
		}
		return v.holding(swapPayload(*token, map[string]any{"aud": v.room + "-2"})), true
	}, false},
	{"token under another room's cookie", func(v *visitor) (request, bool) {
		token := v.loot.live.Load()
		if token == nil {
			return request{}, false
		}
		req := v.bare(http.MethodGet)
		req.header.Set("Cookie", v.accessCookie+"-2="+*token)
		return req, true
	}, false},
	{"prolonged token", func(v *visitor) (request, bool) {
		token := v.loot.live.Load()
		if token == nil {
			return request{}, false
		}
		return v.holding(swapPayload(*token, map[string]any{"exp": time.Now().Add(5 * time.Hour).Unix()})), true
	}, false},
	{"truncated token", func(v *visitor) (request, bool) {
		token := v.loot.live.Load()
		if token == nil {
			return request{}, false
		}
		return v.holding((*token)[:len(*token)-1-v.rng.IntN(20)]), true
	}, false},
	{"place token as access token", func(v *visitor) (request, bool) {
		token := v.loot.place.Load()
		if token == nil {
			return request{}, false
		}
		return v.holding(*token), true
	}, false},
	{"token of an ended session", func(v *visitor) (request, bool) {
		ended := v.loot.ended.Load()
		if ended == nil || time.Since(ended.at) < endedFor {
			return request{}, false
		}
		return v.holding(ended.token), true
	}, false},
}

// accessType is the typ of an access token, as a forger would copy it.
const accessType = "ropeline-access+jwt"

// knocksPerCheat is how often one cheat tries, half with the kinds above and half with spellings of the path.
const knocksPerCheat = 10

// cheat knocks, pauses, and knocks again. One knock that opens the gate is a broken promise.
func (v *visitor) cheat(ctx context.Context) step {
	v.visit.outcome = cheated
	knocks := v.knocks()
	kinds, spellings := v.rng.Perm(len(knocks)), spellings(v.target.EscapedPath())
	for i := range knocksPerCheat {
		name, req, ok, api := "", request{}, false, false
		if i%2 == 0 {
			k := knocks[kinds[i/2%len(kinds)]]
			name, api = k.name, k.api
			req, ok = k.make(v)
		} else {
			req, name, ok = v.bare(http.MethodGet), "spelled path", true
			req.target = spellings[v.rng.IntN(len(spellings))]
		}
		if ok && !v.tryKnock(ctx, name, req, api) {
			return nil
		}
		if !sleep(ctx, time.Duration(v.rng.ExpFloat64()*float64(time.Second))) {
			return nil
		}
	}
	return nil
}

// tryKnock sends one knock and judges its answer; false when ctx ended.
func (v *visitor) tryKnock(ctx context.Context, name string, req request, api bool) bool {
	a, err := v.client.do(ctx, req)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		v.tally.networkErrors.Add(1)
		v.note("network: " + err.Error())
	case api && a.state() == "" && (a.status == http.StatusConflict || a.status == http.StatusUnprocessableEntity):
		v.passedWithoutToken(a, name+": "+req.method+" "+req.target)
	case refused(a):
		v.tally.refused.Add(1)
	case notNow(a):
		v.tally.notNow.Add(1)
	case a.status < 400:
		v.passedWithoutToken(a, name+": "+req.method+" "+req.target)
	default:
		v.unexpected(name, a)
	}
	return true
}

// refused tells whether an answer is the edge's own, or says no: what an upstream answers with 5xx is neither.
func refused(a answer) bool {
	return a.state() != "" || a.status >= 400 && a.status < 500
}

// bare is a request for the target as a script would make it, without any token.
func (v *visitor) bare(method string) request {
	return request{method: method, target: v.target.RequestURI(), header: http.Header{
		"User-Agent": {userAgent}, "Accept": {"application/json"},
		"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}, "Sec-Fetch-Site": {"same-origin"},
	}}
}

// holding is a bare GET that shows token, in the cookie or in the header.
func (v *visitor) holding(token string) request {
	req := v.bare(http.MethodGet)
	if v.rng.IntN(2) == 0 {
		req.header.Set("X-Queue-Token", token)
	} else {
		req.header.Set("Cookie", v.accessCookie+"="+token)
	}
	return req
}

// forge makes a token with plausible claims, changed by with, signed with key by HMAC, or not at all.
func (v *visitor) forge(header, with map[string]any, key []byte) string {
	now := time.Now().Unix()
	payload := map[string]any{
		"iss": "ropeline", "aud": v.room, "sub": "c", "iat": now, "nbf": now, "exp": now + 600, "jti": "AAAAAAAAAAAAAAAA", "num": 1,
	}
	for name, value := range with {
		payload[name] = value
	}
	signed := segment(header) + "." + segment(payload)
	if key == nil {
		return signed + "."
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// swapPayload changes claims of a genuine token and keeps its signature.
func swapPayload(token string, with map[string]any) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return token + "x"
	}
	payload := make(map[string]any)
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &payload) != nil {
		return token + "x"
	}
	for name, value := range with {
		payload[name] = value
	}
	return parts[0] + "." + segment(payload) + "." + parts[2]
}

func segment(v map[string]any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("crowd: claims of plain values did not marshal: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// spellings are ways to write path that some server behind a gate reads as path. All must be refused without a
// token. A spelling with "?" is not among them: a gate never judges a query.
func spellings(path string) []string {
	p := "/" + strings.TrimLeft(path, "/")
	rest := p[1:]
	all := []string{
		"/" + p, "/." + p, "/x/.." + p, "/static/.." + p, "/static/..%2f" + rest, "/static/%2e%2e" + p,
		"/static/..;" + p, `/static\..\` + rest, "/static/..%5c" + rest, "/static/a.css/../.." + p,
		"/%2e" + p, "/static/..%c0%af" + rest, "/static/.%2e" + p, "/%2f" + rest, "/static/%252e%252e" + p,
		"/static/#/../.." + p, strings.ToUpper(p),
	}
	if rest == "" {
		return all
	}
	all = append(all,
		fmt.Sprintf("/%%%02x%s", rest[0], rest[1:]),
		fmt.Sprintf("/%%25%02x%s", rest[0], rest[1:]),
	)
	if i := strings.IndexByte(rest, '/'); i > 0 {
		first, tail := rest[:i], rest[i+1:]
		all = append(all, "/"+first+"%2f"+tail, "/"+first+";a=b/"+tail, "/"+first+"%00/"+tail, "/"+first+"//"+tail)
	}
	return all
}
