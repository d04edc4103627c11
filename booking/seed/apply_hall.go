package seed

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

const hallSQL = `
INSERT INTO bk.map (map_id, name) VALUES ($1, $2)
ON CONFLICT (map_id) DO UPDATE SET name = excluded.name`

const wantHallSQL = `
CREATE TEMP TABLE seed_hall (
  seat_code text COLLATE "C" PRIMARY KEY, section text, row_key text COLLATE "C", pos int, tier text, rank int, accessible boolean
) ON COMMIT DROP`

// dropSeatsSQL takes the seats that the hall has no more from all its events, if nobody has them. One ordered lock pass.
const dropSeatsSQL = `
WITH locked AS MATERIALIZED (
  SELECT s.event_id, s.seat_code
    FROM bk.seat s
    JOIN bk.event e USING (event_id)
   WHERE e.map_id = $1
     AND s.status IN ('AVAILABLE', 'BLOCKED')
     AND NOT EXISTS (SELECT FROM seed_hall h WHERE h.seat_code = s.seat_code)
   ORDER BY s.event_id, s.seat_code
     FOR UPDATE OF s)
DELETE FROM bk.seat s USING locked l
 WHERE s.event_id = l.event_id AND s.seat_code = l.seat_code AND s.status IN ('AVAILABLE', 'BLOCKED')`

// strandedSQL lists seats that stay in an event although the hall has them no more.
const strandedSQL = `
SELECT format('%s of event %s', s.seat_code, s.event_id)
  FROM bk.seat s
  JOIN bk.event e USING (event_id)
 WHERE e.map_id = $1
   AND NOT EXISTS (SELECT FROM seed_hall h WHERE h.seat_code = s.seat_code)
 ORDER BY s.event_id, s.seat_code
 LIMIT 10`

// A seat that differs in anything goes and comes back: two that change places would meet in the unique position.
const forgetSeatsSQL = `
DELETE FROM bk.map_seat m
 WHERE m.map_id = $1
   AND NOT EXISTS (
     SELECT FROM seed_hall h
      WHERE h.seat_code = m.seat_code
        AND (h.section, h.row_key, h.pos, h.tier, h.rank, h.accessible) = (m.section, m.row_key, m.pos, m.tier, m.rank, m.accessible))`

const learnSeatsSQL = `
INSERT INTO bk.map_seat (map_id, seat_code, section, row_key, pos, tier, rank, accessible)
SELECT $1, h.seat_code, h.section, h.row_key, h.pos, h.tier, h.rank, h.accessible
  FROM seed_hall h
 WHERE NOT EXISTS (SELECT FROM bk.map_seat m WHERE m.map_id = $1 AND m.seat_code = h.seat_code)`

func (h *Hall) apply(ctx context.Context, tx pgx.Tx, r *Report) error {
	if err := exec(ctx, tx, hallSQL, h.ID, h.Name); err != nil {
		return err
	}
	if err := exec(ctx, tx, wantHallSQL); err != nil {
		return err
	}
	columns := []string{"seat_code", "section", "row_key", "pos", "tier", "rank", "accessible"}
	rows := pgx.CopyFromSlice(len(h.Seats), func(i int) ([]any, error) {
		s := h.Seats[i]
		return []any{s.Code, s.Section, s.Row, int32(s.Pos), s.Tier, int32(s.Rank), s.Accessible}, nil //nolint:gosec // at most 200,000
	})
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"seed_hall"}, columns, rows); err != nil {
		return err
	}
	gone, err := tx.Exec(ctx, dropSeatsSQL, h.ID)
	if err != nil {
		return err
	}
	if err := stranded(ctx, tx, strandedSQL, h.ID); err != nil {
		return err
	}
	if err := steps(ctx, tx, []string{forgetSeatsSQL, learnSeatsSQL}, h.ID); err != nil {
		return err
	}
	r.Removed += int(gone.RowsAffected())
	return nil
}

// stranded is an error if sql finds seats that are held or sold and would have to go.
func stranded(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	seats, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(seats) == 0 {
		return err
	}
	return fmt.Errorf("seats that the hall doesn't have any more are held or sold: %s", strings.Join(seats, ", "))
}
