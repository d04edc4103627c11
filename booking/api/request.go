package api

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"ropeline/booking"
)

// request is one request on its way.
type request struct {
	*http.Request
	api   *API
	w     *answer
	id    string // X-Request-Id
	base  string // what stands in front of its path: "/v1" or ""
	route string // pattern; "" = none
	arg   string // the segment of its path that varies
	words words

	identified bool
	admission  booking.Admission
	isAdmitted bool
	keyed      []string // customers of its keys, newest first
}

// admitted reports whether a waiting room let the client in, whichever.
func (q *request) admitted() bool {
	q.identify()
	return q.isAdmitted
}

// identify finds out once who asks.
func (q *request) identify() {
	if q.identified {
		return
	}
	q.identified = true
	q.admission, q.isAdmitted = q.api.cfg.Identify(q.Request)
	if q.isAdmitted && q.admission.Customer == "" { // a token that names nobody lets nobody in
		q.admission, q.isAdmitted = booking.Admission{}, false
	}
	q.keyed = q.api.keys.customers(q.Request, q.api.cfg.TLS(q.Request))
}

// customers are all that the client can prove to be: whom the room let in, then those of its keys.
func (q *request) customers() []string {
	q.identify()
	if !q.isAdmitted {
		return q.keyed
	}
	all := []string{q.admission.Customer}
	for _, c := range q.keyed {
		if c != q.admission.Customer {
			all = append(all, c)
		}
	}
	return all
}

// eventID reads the number in the path: 1 to 18 digits, without a zero in front.
func (q *request) eventID() (int64, error) {
	if !digits(q.arg) || len(q.arg) > 18 || q.arg[0] == '0' {
		return 0, booking.ErrNoEvent
	}
	return strconv.ParseInt(q.arg, 10, 64)
}

// bookingID reads the UUID in the path, in its one usual spelling.
func (q *request) bookingID() (uuid.UUID, error) {
	id, ok := parseUUID(q.arg)
	if !ok {
		return uuid.Nil, booking.ErrNoBooking
	}
	return id, nil
}

func parseUUID(s string) (uuid.UUID, bool) {
	if len(s) != 36 {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}

// key reads Idempotency-Key: 1 to 64 visible ASCII characters, or none.
func (q *request) key() (string, error) {
	values := q.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	k := strings.TrimSpace(values[0])
	if len(values) > 1 || len(k) < 1 || len(k) > 64 || strings.ContainsFunc(k, func(c rune) bool { return c < '!' || c > '~' }) {
		return "", refusal{code: "bad-request", detail: "Idempotency-Key takes 1 to 64 visible ASCII characters."}
	}
	return k, nil
}

// wantsPage reports whether a person looks at the answer.
func (q *request) wantsPage() bool {
	if mode := q.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(q.Header.Get("Accept"), "text/html")
}

// send answers with JSON that is the client's own.
func (q *request) send(status int, body any) error {
	q.w.Header().Set("Cache-Control", "no-store")
	return q.write(status, "application/json", body)
}

func (q *request) write(status int, contentType string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	q.w.send(status, contentType, data, q.Method == http.MethodHead)
	return nil
}

// requestID is what the client calls the request, if that is harmless, else a new name.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); len(id) <= 64 && plainSegment(id) {
		return id
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// answer is a ResponseWriter that remembers the status.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and passes it on.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) send(status int, contentType string, body []byte, headOnly bool) {
	h := a.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	a.WriteHeader(status)
	if !headOnly {
		_, _ = a.Write(body)
	}
}
