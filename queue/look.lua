-- look.lua: the leader's first step of a tick: write what it decided for the room, and read what it must know.
-- ARGV      generation, term, mode, rate (per second), active limit, opens (ms, 0 = open), claim window (ms), session (ms),
--           least patience (ms), how long nobody is admitted after nobody looked for a while (ms)
-- Returns {now (ms), active, provisional, waiting, budget (string), serving (string), last number, 1 if everybody in line
-- counts as present}: for one patience after nobody looked for a while, since presence was not written meanwhile.
-- Or the error NOGEN or STALETERM.
local wrong = other_generation(ARGV[1]) or stale_term(ARGV[2])
if wrong then return wrong end
local now = now_ms()
redis.call('HSET', STATE, 'mode', ARGV[3], 'rate', ARGV[4], 'limit', ARGV[5], 'opens', ARGV[6], 'claim', ARGV[7], 'session', ARGV[8])
local seen = redis.call('HMGET', STATE, 'looked', 'amnesty', 'calm')
local amnesty, calm = tonumber(seen[2] or '0'), tonumber(seen[3] or '0')
if now - tonumber(seen[1] or text(now)) > 10000 then
  amnesty, calm = now + tonumber(ARGV[9]), now + tonumber(ARGV[10])
end
redis.call('HSET', STATE, 'looked', text(now), 'amnesty', text(amnesty), 'calm', text(calm))
local active = count_active(now)
local budget = budget_at(now, tonumber(ARGV[4]))
if ARGV[3] ~= 'open' or now < tonumber(ARGV[6]) or now < calm then budget = 0 end
keep_budget(now, budget)
return {
  now, active, redis.call('ZCARD', PROVISIONAL), redis.call('ZCARD', LINE), string.format('%.6f', budget),
  redis.call('HGET', STATE, 'serving') or '0', tonumber(redis.call('GET', SEQ) or '0'), now < amnesty and 1 or 0,
}
