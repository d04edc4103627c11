-- renew.lua: lengthen a session; a provisional one becomes a full one by its first renewal. A session that Redis does not
-- know although its access token is good (it was lengthened while Redis was away, or Redis lost it) is active again.
-- KEYS      the room's fixed keys, token:<id>, used:<generation of the place>
-- ARGV      generation, place id, score, session length (ms), session start (ms, as in the access token), longest a
--           session may last from its start (ms), end of its access token (ms)
-- Returns the session's record, its end never earlier than before; '' if the session is over.
-- Or the error NOGEN.
local wrong = other_generation(ARGV[1])
if wrong then return wrong end
local TOKEN, USED = KEYS[12], KEYS[13]
local id, score = ARGV[2], tonumber(ARGV[3])
local session, start, most, good = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local now = now_ms()

local held = math.max(tonumber(redis.call('ZSCORE', ACTIVE, id) or '0'), good + LEEWAY)
if held <= now or redis.call('ZSCORE', ENDED, id) then return '' end
local record = redis.call('GET', TOKEN)
if record then start = tonumber(string.match(record, '^%d+ %d+ (%d+)')) end
local before = held - LEEWAY
local ends = math.max(before, math.min(now + session, start + most))
redis.call('ZREM', LINE, id)
if redis.call('ZREM', PROVISIONAL, id) == 0 and record and ends == before and tonumber(redis.call('ZSCORE', ACTIVE, id) or '0') == held then
  return record -- nothing to change
end
redis.call('SETBIT', USED, score % 268435456, 1)
record = table.concat({text(ends), text(now), text(start), text(score), '-', '-'}, ' ')
redis.call('ZADD', ACTIVE, text(ends + LEEWAY), id)
redis.call('SET', TOKEN, record, 'PX', text(math.max(1, ends - now)))
return record
