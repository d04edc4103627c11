-- take.lua: mark seats as a hold's, all or none.
-- KEYS   STRING  mark of each seat: the id of the hold that has it
-- ARGV   hold id; time to live (ms); id of a hold that is given up for this one, or ''
-- Returns the positions in KEYS, from 1, of seats that another hold has; none means that all are marked.
local hold, ttl, old = ARGV[1], ARGV[2], ARGV[3]
local taken = {}
for i, key in ipairs(KEYS) do
  local has = redis.call('GET', key)
  if has and has ~= hold and (old == '' or has ~= old) then taken[#taken + 1] = i end
end
if #taken == 0 then
  for _, key in ipairs(KEYS) do redis.call('SET', key, hold, 'PX', ttl) end
end
return taken
