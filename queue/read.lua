-- read.lua: what every node reads several times a second.
-- ARGV      generation of the node, highest number that it has seen in it: Redis may have lost the last ones, and none of them
--           may be given again
-- Returns {now (ms), generation, last number, count of sessions ended so far, snapshot or '', serving}.
local state = redis.call('HMGET', STATE, 'gen', 'ended', 'snap', 'serving')
local last = tonumber(redis.call('GET', SEQ) or '0')
if state[1] == ARGV[1] and last < tonumber(ARGV[2]) then
  redis.call('SET', SEQ, ARGV[2])
  last = tonumber(ARGV[2])
end
return {
  now_ms(), tonumber(state[1] or '0'), last, tonumber(state[2] or '0'), state[3] or '',
  tonumber(state[4] or '0'),
}
