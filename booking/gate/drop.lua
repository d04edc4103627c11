-- drop.lua: remove the marks of a hold, and nobody else's.
-- KEYS   STRING  mark of each seat: the id of the hold that has it
-- ARGV   hold id
-- Returns how many marks were the hold's.
local dropped = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then dropped = dropped + redis.call('DEL', key) end
end
return dropped
