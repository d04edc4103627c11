-- lead.lua: take the room's lease, or renew it.
-- ARGV      holder, time to live (ms), highest term the caller has seen
-- Returns the term while holder leads, else 0. A new tenure's term is above every one seen and at least Redis's time in
-- ms, so that it grows even when Redis has forgotten the last one.
local holder, ttl, seen = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local leader = redis.call('GET', LEASE)
local stored = tonumber(redis.call('GET', FENCE) or '0')
if leader == holder and stored > 0 then
  redis.call('PEXPIRE', LEASE, text(ttl))
  return text(stored)
end
if leader and leader ~= holder then return '0' end
local term = math.max(stored + 1, seen + 1, now_ms())
redis.call('SET', LEASE, holder, 'PX', text(ttl))
redis.call('SET', FENCE, text(term))
return text(term)
