-- open.lua: make sure that the room has a generation.
-- ARGV      the highest generation that the caller has seen (int, 0 = none), 10 s units between the epoch and 2026
-- Returns the generation: Redis's own, unless it is below the caller's, else a new one above everything seen.
local seen, base = tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('HGET', STATE, 'gen') or '0')
if stored > 0 and stored >= seen then return stored end
local gen = math.max(math.floor(now_ms() / 10000) - base, seen + 1, 1)
redis.call('HSET', STATE, 'gen', text(gen))
redis.call('DEL', SEQ)
return gen
