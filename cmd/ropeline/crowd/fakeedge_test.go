package crowd

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// fakeEdge is a waiting room in memory: a gate, a line, batches. It keeps every promise unless a fault is switched
// on; each fault breaks exactly one.
type fakeEdge struct {
	room    string
	tick    time.Duration // between batches
	batch   int           // most admitted per tick
	limit   int           // active limit
	session time.Duration
	poll    time.Duration // told between polls
	faults  faults
	later   faults // become faults at the first tick: a crowd comes only to a room that is gated
	secret  []byte

	mu     sync.Mutex
	last   int64
	places map[string]*fakePlace // by place token
	line   []*fakePlace
	active map[string]time.Time // session id -> end
	ended  map[string]bool
	budget int
}

type faults struct {
	lastInFirstOut bool // the tail is served before the head
	ignoreLimit    bool // admits although active >= limit
	renumber       bool // joining again gives another number
	fallBack       bool // a poll may say that thousands stand in front
	openToScripts  bool // a script passes without a token
	openToExpired  bool // a token passes whatever its signature
	twoSessions    bool // a second poll after admission gives another session
	oneSession     bool // everybody is given the same session
	forget         bool // places are forgotten
	shutOut        bool // tokens do not open the gate
	notNow         bool // every third queue request is told to come back, which is no broken promise
}

type fakePlace struct {
	token, id string
	number    int64
	access    string
	polls     int
	gone      bool // left, or its session was ended
}

func newFakeEdge() *fakeEdge {
	return &fakeEdge{
		room: "spring", tick: time.Second, batch: 10, limit: 60, session: time.Minute, poll: 2 * time.Second, secret: []byte("the edge's own"),
		places: make(map[string]*fakePlace), active: make(map[string]time.Time), ended: make(map[string]bool), budget: 10,
	}
}

// run admits a batch per tick until ctx ends.
func (e *fakeEdge) run(ctx context.Context) {
	for sleep(ctx, e.tick) {
		e.admitBatch()
	}
}

func (e *fakeEdge) admitBatch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = e.later
	now := time.Now()
	for id, end := range e.active {
		if now.After(end) {
			delete(e.active, id)
		}
	}
	e.budget = e.batch
	for len(e.line) > 0 && e.budget > 0 && e.free() {
		i := 0
		if e.faults.lastInFirstOut {
			i = len(e.line) - 1
		}
		p := e.line[i]
		e.line = slices.Delete(e.line, i, i+1)
		e.admit(p, now)
	}
}

func (e *fakeEdge) free() bool { return len(e.active) < e.limit || e.faults.ignoreLimit }

func (e *fakeEdge) admit(p *fakePlace, now time.Time) {
	e.budget--
	if e.faults.oneSession {
		p.id = "one-for-all"
	}
	exp := now.Add(e.session)
	e.active[p.id] = exp
	p.access = e.sign(claims{ID: p.id, Room: e.room, Issued: now.Unix(), Expires: exp.Unix(), Number: p.number, Generation: 7})
}

func (e *fakeEdge) newPlace() *fakePlace {
	e.last++
	p := &fakePlace{token: fmt.Sprintf("place-%d", e.last), id: fmt.Sprintf("id-%d", e.last), number: e.last}
	e.places[p.token] = p
	return p
}

func (e *fakeEdge) sign(c claims) string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString(raw)
	return signed + "." + e.mac(signed)
}

func (e *fakeEdge) mac(s string) string {
	m := hmac.New(sha256.New, e.secret)
	m.Write([]byte(s))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// opens tells whether a token opens the gate.
func (e *fakeEdge) opens(token string) bool {
	if e.faults.shutOut {
		return false
	}
	c, err := readClaims(token)
	if err != nil {
		return false
	}
	i := strings.LastIndexByte(token, '.')
	signed := token[i+1:] == e.mac(token[:i]) || e.faults.openToExpired
	return signed && c.Room == e.room && time.Now().Unix() < c.Expires && !e.ended[c.ID]
}

func (e *fakeEdge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rest, ok := strings.CutPrefix(r.URL.Path, "/_ropeline/events/"+e.room+"/queue"); ok {
		e.queue(w, r, strings.TrimPrefix(rest, "/"))
		return
	}
	token := r.Header.Get("X-Queue-Token")
	if c, err := r.Cookie("ropeline_" + e.room); err == nil && token == "" {
		token = c.Value
	}
	navigation := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	switch {
	case e.opens(token), e.faults.openToScripts && !navigation && r.Header.Get("Upgrade") == "":
		fmt.Fprintln(w, "the show")
	case navigation && len(e.line) == 0 && len(e.active) < e.limit && e.budget > 0:
		p := e.newPlace()
		e.admit(p, time.Now())
		http.SetCookie(w, &http.Cookie{Name: "ropeline_" + e.room, Value: p.access, Path: "/", HttpOnly: true})
		fmt.Fprintln(w, "the show")
	case navigation:
		w.Header().Set("X-Ropeline-State", "queue")
		fmt.Fprintln(w, "please wait")
	default:
		e.problem(w, http.StatusForbidden, "not-admitted")
	}
}

func (e *fakeEdge) problem(w http.ResponseWriter, status int, slug string) {
	w.Header().Set("X-Ropeline-State", "queue")
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"urn:ropeline:%s","title":"Not admitted","status":%d,"room":%q}`, slug, status, e.room)
}

func (e *fakeEdge) queue(w http.ResponseWriter, r *http.Request, id string) {
	if e.faults.notNow && time.Now().UnixNano()%3 == 0 {
		w.Header().Set("Retry-After", "1")
		e.problem(w, http.StatusServiceUnavailable, "redis-away")
		return
	}
	if c, err := r.Cookie("ropeline_place_" + e.room); err == nil && (id == "me" || id == "") {
		id = c.Value
	}
	if body, _ := io.ReadAll(r.Body); len(body) > 0 && id == "" {
		var asked struct{ QueueID string }
		if json.Unmarshal(body, &asked) == nil {
			id = asked.QueueID
		}
	}
	p := e.places[id]
	if p != nil && p.gone {
		p = nil
	}
	if p == nil && r.Method != http.MethodPost {
		e.problem(w, http.StatusNotFound, "no-place")
		return
	}
	switch r.Method {
	case http.MethodPost:
		e.join(w, p)
	case http.MethodGet:
		p.polls++
		if e.faults.forget && p.number%5 == 0 {
			p.gone = true
			e.problem(w, http.StatusNotFound, "place-unknown")
			return
		}
		e.tell(w, p, http.StatusOK)
	case http.MethodDelete:
		p.gone = true
		e.line = slices.DeleteFunc(e.line, func(other *fakePlace) bool { return other == p })
		if p.access != "" {
			e.ended[p.id] = true
			delete(e.active, p.id)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (e *fakeEdge) join(w http.ResponseWriter, p *fakePlace) {
	if p == nil {
		p = e.newPlace()
		if len(e.line) == 0 && e.free() && e.budget > 0 {
			e.admit(p, time.Now())
		} else {
			e.line = append(e.line, p)
		}
	} else if e.faults.renumber {
		e.last++
		p.number = e.last
	}
	http.SetCookie(w, &http.Cookie{Name: "ropeline_place_" + e.room, Value: p.token, Path: "/_ropeline/", HttpOnly: true})
	e.tell(w, p, http.StatusCreated)
}

func (e *fakeEdge) tell(w http.ResponseWriter, p *fakePlace, status int) {
	told := map[string]any{"queueId": p.token, "number": p.number, "state": "waiting", "pollAfterMs": e.poll.Milliseconds(), "waiting": len(e.line)}
	if p.access != "" {
		if e.faults.twoSessions {
			p.id += "+"
			e.admit(p, time.Now())
		}
		told["state"], told["accessToken"] = "admitted", p.access
		http.SetCookie(w, &http.Cookie{Name: "ropeline_" + e.room, Value: p.access, Path: "/", HttpOnly: true})
	} else {
		ahead := slices.Index(e.line, p)
		if e.faults.fallBack && p.polls > 0 && p.polls%3 == 0 {
			ahead += 4000
		}
		told["ahead"] = ahead
	}
	w.Header().Set("X-Ropeline-State", told["state"].(string))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(told)
}

// inMemory is a client that calls a handler without a socket, so that a crowd can live in a synctest bubble.
type inMemory struct{ handler http.Handler }

func (m inMemory) do(ctx context.Context, req request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	r := httptest.NewRequestWithContext(ctx, req.method, "http://edge.test/show/", strings.NewReader(req.body))
	r.Header = req.header.Clone()
	if strings.HasPrefix(req.target, "/_ropeline/") {
		r.URL.Path = req.target
	}
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}, nil
}
