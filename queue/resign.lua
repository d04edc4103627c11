-- resign.lua: give the lease up, so that another node leads at once.
-- ARGV      holder
-- Returns 1 if it was the leader.
if redis.call('GET', LEASE) ~= ARGV[1] then return 0 end
return redis.call('DEL', LEASE)
