// Package token signs and verifies access tokens, the proof that a visitor has been admitted to a room, and keeps the
// keys for that.
//
// An access token is a JWT. Its header is exactly
//
//	{"alg": "EdDSA" | "HS256", "kid": "<key id>", "typ": "ropeline-access+jwt"}
//
// and its claims are
//
//	iss  string  always "ropeline"
//	aud  string  the room's id; one string, never an array
//	sub  string  the visitor
//	jti  string  the place's id, which is also the session's: a renewed token has the same one
//	iat  int     when it was issued, in seconds since the Unix epoch, as are all the times
//	nbf  int     when it begins to open the room; equal to iat
//	exp  int     when it stops
//	num  int     the place's number in its generation, from 1; 0 where there is none
//	gen  int     the generation
//	sst  int     when the session began; earlier than iat in a renewed token
//	prv  bool    present and true in a token that lasts only until its visitor comes back with it
//	out  bool    present and true in a token given out while Redis was away
//
// # What holds
//
//   - A token is accepted only if one of our keys signed it, with that key's own algorithm, for this room and type, and
//     if its time has come and not passed. [Authority.Verify] lists each check. Whatever goes wrong, also a panic, is a
//     refusal.
//   - Verifying needs nothing but the keys: no store, no network, no file. With Redis away every valid token goes on
//     opening its room until it ends.
//   - The session is the jti, never the token's bytes. The bytes are strict as well, so that nobody can turn one token
//     into a second one that differs.
//   - An answer remembered from an earlier call is the answer Verify would give now: the clock is read each time, and
//     a change of keys forgets all of them.
//
// # The life of a key
//
//	listed last ──────▶ listed first ──────▶ listed after it ──────▶ removed
//	verifies            signs, verifies      verifies                refused
//
// The first key of a set signs and all of them verify. A key must have reached every node before it signs, or the
// nodes without it refuse its tokens; and it stays until the last token it signed has ended. Removing one also changes
// what [Keys.Derive] returns.
//
// # Why
//
//   - Why strict checks around a JWT library: golang-jwt v5.3.1 with all its strict options accepts an unknown crit,
//     any typ, members twice, "exp" as a string, a newline in the signature and 100 KiB of token. We ask it for what it
//     is good at, the signature and the registered claims, and refuse the rest first.
//   - Why the header is a closed list and the claims are not: whoever reads a header acts on it before the signature is
//     known to be good. A claim is only read after that, so a newer version may add some that this one passes over.
//   - Why not fetch keys from where a token points: a header that names its key (jwk, jku, x5u) lets its sender choose,
//     and a kid that causes a fetch lets anybody cause fetches. A [Remote] asks one address, which its configuration names,
//     and for the sake of unknown kids not more often than it would be asked anyway by a few nodes.
package token
