package queue

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"ropeline/internal/sendonce"
)

//go:embed prelude.lua
var preludeLua string

//go:embed open.lua
var openLua string

//go:embed join.lua
var joinLua string

//go:embed leave.lua
var leaveLua string

//go:embed renew.lua
var renewLua string

//go:embed lead.lua
var leadLua string

//go:embed resign.lua
var resignLua string

//go:embed look.lua
var lookLua string

//go:embed admit.lua
var admitLua string

//go:embed publish.lua
var publishLua string

//go:embed read.lua
var readLua string

//go:embed here.lua
var hereLua string

var (
	openScript    = newScript(preludeLua + openLua)
	joinScript    = newScript(preludeLua + joinLua)
	leaveScript   = newScript(preludeLua + leaveLua)
	renewScript   = newScript(preludeLua + renewLua)
	leadScript    = newScript(preludeLua + leadLua)
	resignScript  = newScript(preludeLua + resignLua)
	lookScript    = newScript(preludeLua + lookLua)
	admitScript   = newScript(preludeLua + admitLua)
	publishScript = newScript(preludeLua + publishLua)
	readScript    = newScript(preludeLua + readLua)
	hereScript    = newScript(hereLua)
)

// What Redis may answer instead of doing what it was asked.
var (
	// ErrGeneration means that Redis stands in another generation than the caller; nothing was written.
	ErrGeneration = errors.New("queue: Redis stands in another generation")
	// ErrStaleTerm means that a later leader has acted; nothing was written.
	ErrStaleTerm = errors.New("queue: a later term has acted")
	// ErrAway means that Redis does not answer.
	ErrAway = errors.New("queue: Redis is away")
)

// call runs a script once, measured under op, with its refusals turned into this package's errors.
func (l *Line) call(ctx context.Context, op string, s script, keys []string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	began := time.Now()
	cmd := s.run(ctx, l.rdb, keys, args)
	l.cfg.Metrics.observe(op, time.Since(began), cmd.Err())
	if err := refusal(cmd.Err()); err != nil {
		cmd.SetErr(fmt.Errorf("%s in room %s: %w", op, l.room, err))
	}
	return cmd
}

// reading runs a reading without a script, measured under op.
func (l *Line) reading(ctx context.Context, op string, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	began := time.Now()
	err := work(ctx)
	l.cfg.Metrics.observe(op, time.Since(began), err)
	if err := refusal(err); err != nil {
		return fmt.Errorf("%s of room %s: %w", op, l.room, err)
	}
	return nil
}

// script is the text of a Lua script and the name that Redis knows it by.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) // as EVALSHA has it
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// run sends the script's name, a single time, and its text where Redis does not know it yet.
func (s script) run(ctx context.Context, rdb redis.UniversalClient, keys []string, args []any) *redis.Cmd {
	cmd := sendonce.Script(ctx, rdb, "evalsha", s.sha, keys, args)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = sendonce.Script(ctx, rdb, "eval", s.text, keys, args)
	}
	return cmd
}

func refusal(err error) error {
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return nil
	case strings.HasPrefix(err.Error(), "NOGEN"):
		return ErrGeneration
	case strings.HasPrefix(err.Error(), "STALETERM"):
		return ErrStaleTerm
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// record is what Redis keeps of an admitted place: see prelude.lua.
type record struct {
	ends, issued, start, score int64 // ms, ms, ms, score
	provisional                bool
	token                      string // "" where the node that hands it out signs it
}

func (r record) String() string {
	flag, token := "-", r.token
	if r.provisional {
		flag = "p"
	}
	if token == "" {
		token = "-"
	}
	return fmt.Sprintf("%d %d %d %d %s %s", r.ends, r.issued, r.start, r.score, flag, token)
}

func parseRecord(s string) (record, error) {
	f := strings.Fields(s)
	if len(f) != 6 {
		return record{}, fmt.Errorf("queue: %d fields in the record of an admitted place, 6 are needed", len(f))
	}
	var n [4]int64
	for i := range n {
		v, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return record{}, fmt.Errorf("queue: record of an admitted place: %w", err)
		}
		n[i] = v
	}
	r := record{ends: n[0], issued: n[1], start: n[2], score: n[3], provisional: f[4] == "p", token: f[5]}
	if r.token == "-" {
		r.token = ""
	}
	return r, nil
}

// Grant is an admission: what an access token says.
type Grant struct {
	Place       Place
	Issued      time.Time // the access token's iat
	Started     time.Time // when the session began
	Expires     time.Time // when it ends
	Provisional bool      // ends with the claim window unless a second request confirms it (see [Line.Renew])
	Token       string    // the signed access token, "" where whoever hands it out signs it
}

func (r record) grant(p Place) Grant {
	return Grant{
		Place: p, Issued: time.UnixMilli(r.issued), Started: time.UnixMilli(r.start), Expires: time.UnixMilli(r.ends),
		Provisional: r.provisional, Token: r.token,
	}
}
