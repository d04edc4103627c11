-- sold.lua: mark seats for a long time, those that are the hold's or nobody's.
-- KEYS   STRING  mark of each seat: the id of the hold that has it
-- ARGV   hold id; time to live from now (ms)
-- Returns how many seats were marked.
local marked = 0
for _, key in ipairs(KEYS) do
  local has = redis.call('GET', key)
  if not has or has == ARGV[1] then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    marked = marked + 1
  end
end
return marked
