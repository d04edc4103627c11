-- publish.lua: the leader's last step of a tick: write the snapshot.
-- ARGV      generation, term, snapshot (JSON)
-- Returns OK, or the error NOGEN or STALETERM.
local wrong = other_generation(ARGV[1]) or stale_term(ARGV[2])
if wrong then return wrong end
redis.call('HSET', STATE, 'snap', ARGV[3])
return redis.status_reply('OK')
