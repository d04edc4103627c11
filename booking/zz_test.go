package booking_test
import ("testing";"time";"context";"strings";"ropeline/booking";"ropeline/booking/bookingtest";"github.com/jackc/pgx/v5")
func TestZZ(t *testing.T) {
	c, _, k, url := shop(t, bookingtest.Sale{Rows: 1000, PerRow: 50})
	ctx := context.Background()
	pool, _ := booking.OpenWork(ctx, url, 4)
	t.Cleanup(pool.Close)
	do(t, pool, `
WITH s AS (SELECT seat_code, gen_random_uuid() AS id FROM bk.seat WHERE event_id = 42 ORDER BY seat_code LIMIT $1),
b AS (INSERT INTO bk.booking (booking_id, kind, customer, status, event_id, items, quantity, held_since, created_at, expires_at)
      SELECT id, 'SEATS', 'c', 'HOLD', 42, ARRAY[seat_code], 1, $2::timestamptz, $2, $2::timestamptz + interval '1 min' FROM s)
UPDATE bk.seat x SET status = 'HELD', booking_id = s.id, hold_expires_at = $2::timestamptz + interval '1 min' FROM s WHERE x.event_id = 42 AND x.seat_code = s.seat_code`, 5000, k.Now())
	k.forward(time.Minute)
	sql := statement(t, "expire")
	sql = strings.Replace(sql, "sl AS MATERIALIZED (", `w AS MATERIALIZED (SELECT d.booking_id, d.event_id, u.c COLLATE "C" AS c FROM due d CROSS JOIN LATERAL unnest(d.items) u(c)),
sl AS MATERIALIZED (`, 1)
	i := strings.Index(sql, "    JOIN (SELECT d.booking_id")
	j := strings.Index(sql, "   WHERE s.booking_id = w.booking_id")
	sql = sql[:i] + "    JOIN w ON s.event_id = w.event_id AND s.seat_code = w.c\n" + sql[j:]
	for range 3 {
	b := time.Now()
	var x, y int
	t.Log(pool.QueryRow(ctx, sql, pgx.NamedArgs{"now": k.Now(), "most": 500}).Scan(&x, &y), x, y, time.Since(b))
	}
	b := time.Now()
	t.Log(c.Sweep(ctx), time.Since(b))
	
}
