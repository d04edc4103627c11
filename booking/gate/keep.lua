-- keep.lua: let the marks of a hold last.
-- KEYS   STRING  mark of each seat: the id of the hold that has it
-- ARGV   hold id; time to live from now (ms)
-- Returns how many marks were the hold's.
local kept = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then kept = kept + redis.call('PEXPIRE', key, ARGV[2]) end
end
return kept
