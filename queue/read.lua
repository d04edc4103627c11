-- read.lua: what every node reads several times a second.
-- Returns {now (ms), generation, last number, count of sessions ended so far, snapshot or '', serving}.
local state = redis.call('HMGET', STATE, 'gen', 'ended', 'snap', 'serving')
return {
  now_ms(), tonumber(state[1] or '0'), tonumber(redis.call('GET', SEQ) or '0'), tonumber(state[2] or '0'), state[3] or '',
  tonumber(state[4] or '0'),
}
