package admitter

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"ropeline/admitter/token"
	"ropeline/queue"
)

// moved is what a tick has done to the line.
type moved struct {
	admitted, absent int
	serving          int64 // highest score that was admitted or passed over
}

// admit fills a tick's batch from the head of the line, in chunks: who is absent is passed over until the batch is full,
// the line ends or the time is up.
func (a *Admitter) admit(ctx context.Context, s Settings, v queue.View) (moved, error) {
	var done moved
	began := a.cfg.Now()
	want := min(int(v.Budget), s.Limit-v.Active, v.Waiting)
	size := want + 16
	for chunk := 0; want > done.admitted && a.term.live(a.cfg.Now()); chunk++ {
		size = min(size*2, a.cfg.Chunk)
		// Places that this tick admits or passes over leave the line, so the head is always at rank 0.
		heads, err := a.line.Candidates(ctx, 0, size, v.Now)
		if err != nil || len(heads) == 0 {
			return done, err
		}
		present, absent := split(heads, want-done.admitted, v.Amnesty)
		grants, err := a.grants(s, present, v.Now.Add(a.cfg.Now().Sub(began)))
		if err != nil {
			return done, err
		}
		if !a.term.live(a.cfg.Now()) {
			return done, nil
		}
		id := strconv.FormatInt(a.term.fence, 10) + "-" + strconv.FormatInt(v.Now.UnixMilli(), 10) + "-" + strconv.Itoa(chunk)
		ids, err := a.line.Admit(ctx, a.term.fence, id, s.Claim, grants, absent)
		if err != nil {
			return done, fmt.Errorf("commit: %w", err)
		}
		done.count(heads, ids, absent)
		if len(ids) < len(present) {
			return done, nil // the limit, the budget, or visitors who left meanwhile
		}
		if a.cfg.Now().Sub(began) > a.cfg.Interval && len(present) == 0 {
			return done, nil // a long row of absent places: go on in the next tick
		}
	}
	return done, nil
}

// split picks up to want present places in line order, and the absent ones before the last of them. With amnesty
// everybody is present.
func split(heads []queue.Candidate, want int, amnesty bool) (present, absent []queue.Place) {
	for _, h := range heads {
		switch {
		case len(present) == want:
			return present, absent
		case h.Present || amnesty:
			present = append(present, h.Place)
		default:
			absent = append(absent, h.Place)
		}
	}
	return present, absent
}

func (m *moved) count(heads []queue.Candidate, ids []string, absent []queue.Place) {
	m.admitted += len(ids)
	m.absent += len(absent)
	in := make(map[string]bool, len(ids))
	for _, id := range ids {
		in[id] = true
	}
	for _, h := range heads {
		if in[h.ID] {
			m.serving = max(m.serving, h.Score())
		}
	}
	for _, p := range absent {
		m.serving = max(m.serving, p.Score())
	}
}

// grants signs an access token for each place: good from now until the claim window and then the session have passed.
func (a *Admitter) grants(s Settings, places []queue.Place, now time.Time) ([]queue.Grant, error) {
	now = now.Truncate(time.Second) // a token's times are whole seconds
	grants := make([]queue.Grant, len(places))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	const share = 64
	for from := 0; from < len(places); from += share {
		group.Go(func() error {
			for i := from; i < min(from+share, len(places)); i++ {
				g := queue.Grant{Place: places[i], Issued: now, Started: now, Expires: now.Add(s.Claim + s.Session)}
				if !s.SignAtClaim {
					signed, err := a.signer.Sign(claims(a.line.Room(), g))
					if err != nil {
						return fmt.Errorf("sign: %w", err)
					}
					g.Token = signed
				}
				grants[i] = g
			}
			return nil
		})
	}
	return grants, group.Wait()
}

// claims are what the access token of an anonymous visitor says.
func claims(room string, g queue.Grant) token.Claims {
	return token.Claims{
		Room: room, Visitor: g.Place.ID, ID: g.Place.ID, Number: g.Place.Number, Generation: g.Place.Generation,
		Issued: g.Issued, Expires: g.Expires, Started: g.Started,
	}
}
