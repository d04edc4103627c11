package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// View is what the leader sees at the beginning of a tick.
type View struct {
	Now         time.Time // Redis's time
	Active      int
	Provisional int // of Active
	Waiting     int
	Budget      float64 // how many may be admitted now, with fractions; 0 unless the room is open, and just after an outage
	Serving     int64   // highest score whose turn has come
	Highest     int64   // last number given
	Amnesty     bool    // everybody in line counts as present: nobody looked for a while, so nobody's presence is known
}

// Candidate is a place near the head of the line.
type Candidate struct {
	Place
	Present bool // its visitor may be counted on
}

// Look writes the settings that the leader of term decided, ends sessions that are over, and returns what a tick must
// know. It returns [ErrStaleTerm] if a later leader has acted.
func (l *Line) Look(ctx context.Context, term int64, s Settings) (View, error) {
	var v View
	err := l.inGeneration(ctx, func(generation int64) error {
		opens := int64(0)
		if !s.OpensAt.IsZero() {
			opens = s.OpensAt.UnixMilli()
		}
		a, err := l.call(ctx, "look", lookScript, l.k.with(), generation, term, string(s.Mode),
			strconv.FormatFloat(s.Rate, 'f', -1, 64), s.Limit, opens, s.Claim.Milliseconds(), s.Session.Milliseconds(),
			leastPatience.Milliseconds(), calmFor.Milliseconds()).Slice()
		if err != nil {
			return err
		}
		if len(a) != 8 {
			return fmt.Errorf("look in room %s: %d values, 8 are needed", l.room, len(a))
		}
		v = View{
			Now: time.UnixMilli(a[0].(int64)), Active: int(a[1].(int64)), Provisional: int(a[2].(int64)),
			Waiting: int(a[3].(int64)), Highest: a[6].(int64), Amnesty: a[7].(int64) == 1,
		}
		if v.Budget, err = strconv.ParseFloat(a[4].(string), 64); err != nil {
			return fmt.Errorf("look in room %s: budget: %w", l.room, err)
		}
		if l.calm() {
			v.Budget = 0
		}
		v.Serving, err = strconv.ParseInt(a[5].(string), 10, 64)
		return err
	})
	return v, err
}

// Candidates returns up to n places in line order, beginning at rank from, and whether their visitors are present at now.
func (l *Line) Candidates(ctx context.Context, from, n int, now time.Time) ([]Candidate, error) {
	var heads []redis.Z
	err := l.reading(ctx, "heads", func(ctx context.Context) (err error) {
		heads, err = l.rdb.ZRangeWithScores(ctx, l.k.line, int64(from), int64(from+n-1)).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]Candidate, len(heads))
	span := map[int64]*bits{} // by generation
	for i, h := range heads {
		id, _ := h.Member.(string)
		list[i].Place = placeAt(id, int64(h.Score))
		b := span[list[i].Generation]
		if b == nil {
			b = &bits{first: list[i].Number}
			span[list[i].Generation] = b
		}
		b.first, b.last = min(b.first, list[i].Number), max(b.last, list[i].Number)
	}
	pipe := l.rdb.Pipeline()
	for generation, b := range span {
		for _, window := range windowsAt(now) {
			b.cmds = append(b.cmds, pipe.GetRange(ctx, l.k.here(generation, window), b.first/8, b.last/8))
		}
	}
	if len(span) == 0 {
		return nil, nil
	}
	if err := l.reading(ctx, "presence", func(ctx context.Context) error { _, err := pipe.Exec(ctx); return err }); err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Present = span[list[i].Generation].has(list[i].Number)
	}
	return list, nil
}

// windowsAt names the windows that a present visitor's bit is in at now: the one of the moment, and as long as nodes may
// not have flushed into it the one before.
func windowsAt(now time.Time) []int64 {
	millis := now.UnixMilli()
	if millis%windowMillis < flushGraceMillis {
		return []int64{millis / windowMillis, millis/windowMillis - 1}
	}
	return []int64{millis / windowMillis}
}

// bits is the same part of one or two presence bitmaps.
type bits struct {
	first, last int64
	cmds        []*redis.StringCmd
}

func (b *bits) has(number int64) bool {
	for _, cmd := range b.cmds {
		at, s := number/8-b.first/8, cmd.Val()
		if at < int64(len(s)) && s[at]&(0x80>>(number%8)) != 0 {
			return true
		}
	}
	return false
}

// Admit moves those of grants that are still in line into the active set, in order, while the active limit and the
// budget allow; absent ones leave the line. It returns the ids admitted. The same batch id again does nothing and returns
// the same ids, so an unknown outcome can be asked again. [ErrStaleTerm]: a later leader has acted.
//
// Chunks of 500 block Redis for about 2 ms.
func (l *Line) Admit(ctx context.Context, term int64, batch string, claim time.Duration, grants []Grant, absent []Place) ([]string, error) {
	keys := make([]string, 0, len(l.k.stateToBatch)+len(grants))
	keys = append(keys, l.k.stateToBatch...)
	args := make([]any, 0, 5+3*len(grants)+2*len(absent))
	args = append(args, l.era.Load().generation, term, batch, claim.Milliseconds(), len(grants))
	for _, g := range grants {
		r := record{
			ends: g.Expires.UnixMilli(), issued: g.Issued.UnixMilli(), start: g.Started.UnixMilli(),
			score: g.Place.Score(), token: g.Token,
		}
		keys = append(keys, l.k.token(g.Place.ID))
		args = append(args, g.Place.ID, g.Place.Score(), r.String())
	}
	for _, p := range absent {
		args = append(args, p.ID, p.Score())
	}
	ids, err := l.call(ctx, "admit", admitScript, keys, args...).StringSlice()
	if errors.Is(err, ErrAway) {
		ids, err = l.call(ctx, "admit", admitScript, keys, args...).StringSlice()
	}
	return ids, err
}

// denseMarks and sparseMarks: the first ranks of the line are all in the snapshot, the rest is sampled.
const denseMarks, sparseMarks = 256, 128

// Marks samples the line, which holds waiting places: the first ranks one by one, then equally spaced ones, then the last.
func (l *Line) Marks(ctx context.Context, waiting int) ([]Mark, error) {
	pipe := l.rdb.Pipeline()
	ranks := []int{}
	cmds := []*redis.ZSliceCmd{pipe.ZRangeWithScores(ctx, l.k.line, 0, denseMarks-1)}
	for i := 1; i <= sparseMarks && waiting > denseMarks; i++ {
		rank := denseMarks + (waiting-1-denseMarks)*i/sparseMarks
		if len(ranks) > 0 && ranks[len(ranks)-1] == rank {
			continue
		}
		ranks = append(ranks, rank)
		cmds = append(cmds, pipe.ZRangeWithScores(ctx, l.k.line, int64(rank), int64(rank)))
	}
	if err := l.reading(ctx, "marks", func(ctx context.Context) error { _, err := pipe.Exec(ctx); return err }); err != nil {
		return nil, err
	}
	marks := []Mark{}
	for rank, z := range cmds[0].Val() {
		marks = append(marks, Mark{Rank: rank, Score: int64(z.Score)})
	}
	for i, rank := range ranks {
		for _, z := range cmds[i+1].Val() {
			if s := int64(z.Score); len(marks) == 0 || s > marks[len(marks)-1].Score {
				marks = append(marks, Mark{Rank: rank, Score: s})
			}
		}
	}
	return marks, nil
}

// Publish writes the snapshot that every node reads.
func (l *Line) Publish(ctx context.Context, term int64, s Snapshot) error {
	return l.inGeneration(ctx, func(generation int64) error {
		s.Generation = generation
		blob, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("snapshot of room %s: %w", l.room, err)
		}
		return l.call(ctx, "publish", publishScript, l.k.with(), generation, term, blob).Err()
	})
}
