package token

import "errors"

// Why a token was refused. [Authority.Verify] returns exactly one of these, mostly wrapped with a detail. None of them
// says anything about the token's bytes, so they are safe to log.
var (
	// ErrMissing means that there is no token: the empty string.
	ErrMissing = errors.New("token: missing")

	// ErrMalformed means that these bytes are no access token of ours, whoever signed them: too long, not three strict
	// base64url parts, a foreign header member, a member twice, a claim missing or of the wrong kind.
	ErrMalformed = errors.New("token: malformed")

	// ErrType means a token of another type, such as a place token.
	ErrType = errors.New("token: not an access token")

	// ErrKey means that the key it names is not, or no longer, one of ours.
	ErrKey = errors.New("token: unknown key")

	// ErrSignature means that the signature is wrong, or the algorithm is not the one bound to the key.
	ErrSignature = errors.New("token: bad signature")

	// ErrIssuer means that somebody else issued it.
	ErrIssuer = errors.New("token: foreign issuer")

	// ErrRoom means that it opens another room.
	ErrRoom = errors.New("token: of another room")

	// ErrLifetime means that it would last longer than [Config].MaxLife.
	ErrLifetime = errors.New("token: lasts too long")

	// ErrNotYet means that nbf or iat lies in the future.
	ErrNotYet = errors.New("token: not yet valid")

	// ErrExpired means that exp has passed.
	ErrExpired = errors.New("token: expired")

	// ErrInternal means that verifying panicked.
	ErrInternal = errors.New("token: cannot be verified")
)

// Why a token could not be signed.
var (
	// ErrNoKeys means that there is no key to sign with.
	ErrNoKeys = errors.New("token: no keys")

	// ErrClaims means claims that Verify would refuse, so they are not signed.
	ErrClaims = errors.New("token: claims not fit to sign")
)

// reasons are the words of Reason.
var reasons = []struct {
	err  error
	word string
}{
	{ErrMissing, "missing"},
	{ErrMalformed, "malformed"},
	{ErrType, "wrong_type"},
	{ErrKey, "unknown_key"},
	{ErrSignature, "bad_signature"},
	{ErrIssuer, "wrong_issuer"},
	{ErrRoom, "wrong_room"},
	{ErrLifetime, "too_long"},
	{ErrNotYet, "not_yet"},
	{ErrExpired, "expired"},
}

// Reason returns the word for an error of [Authority.Verify], for the label of a metric: missing, malformed, wrong_type,
// unknown_key, bad_signature, wrong_issuer, wrong_room, too_long, not_yet, expired, or internal for anything else.
// For nil it returns "".
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return "internal"
}

// refusal is a sentinel with a detail. Its words are fixed: nothing of the token goes in.
type refusal struct {
	sentinel error
	detail   string
}

func refuse(sentinel error, detail string) error { return &refusal{sentinel, detail} }

func (r *refusal) Error() string { return r.sentinel.Error() + ": " + r.detail }
func (r *refusal) Unwrap() error { return r.sentinel }
