-- leave.lua: give up a place: leave the line, or end the session that it was exchanged for. Safe to repeat.
-- KEYS      the room's fixed keys, token:<id>, used:<generation of the place>
-- ARGV      generation, place id, score, end of the access token if the caller knows it (ms, else 0), digest or ''
-- Returns 1 if a session was ended, 0 if not. Or the error NOGEN.
local wrong = other_generation(ARGV[1])
if wrong then return wrong end
local TOKEN, USED = KEYS[12], KEYS[13]
local id, score, ends, digest = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = now_ms()

local record = redis.call('GET', TOKEN)
if record then ends = math.max(ends, tonumber(string.match(record, '^%d+'))) end
redis.call('SETBIT', USED, score % 268435456, 1)
redis.call('ZREM', LINE, id)
redis.call('ZREM', ACTIVE, id)
redis.call('ZREM', PROVISIONAL, id)
redis.call('DEL', TOKEN)
if digest ~= '' then
  local mine = redis.call('HGET', WHO, digest)
  if mine and string.match(mine, '^%S+') == id then redis.call('HDEL', WHO, digest) end
end
if ends + LEEWAY <= now then return 0 end
redis.call('ZREMRANGEBYSCORE', ENDED, '-inf', text(now - LEEWAY))
if redis.call('ZADD', ENDED, text(ends), id) == 1 then redis.call('HINCRBY', STATE, 'ended', 1) end
return 1
