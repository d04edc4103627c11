-- admit.lua: move places from the line into the active set, and absent ones out of the line. All or nothing for each.
-- KEYS      the room's fixed keys, then token:<place id> for each place to admit
-- ARGV      generation, term, batch id, claim window (ms), how many to admit; for each: id, score, record; then for each
--           absent place: id, score
-- Returns the ids admitted, in order: those still in line, while active < limit and the budget lasts. The same batch id
-- again returns the same answer and does nothing. Or the error NOGEN or STALETERM.
local wrong = other_generation(ARGV[1]) or stale_term(ARGV[2])
if wrong then return wrong end
local done = redis.call('HGET', BATCH, 'id') == ARGV[3] and redis.call('HGET', BATCH, 'answer')
if done then
  local ids = {}
  for id in string.gmatch(done, '%S+') do ids[#ids + 1] = id end
  return ids
end
local now = now_ms()
local set = redis.call('HMGET', STATE, 'mode', 'rate', 'limit', 'opens', 'serving')
local limit, serving = tonumber(set[3]), tonumber(set[5] or '0')
local claim, count = tonumber(ARGV[4]), tonumber(ARGV[5])
local open = set[1] == 'open' and now >= tonumber(set[4])
local active, budget = count_active(now), open and budget_at(now, tonumber(set[2])) or 0

local admitted = {}
for i = 1, count do
  if active >= limit or budget < 1 then break end
  local id, score, record = ARGV[3 + i * 3], ARGV[4 + i * 3], ARGV[5 + i * 3]
  if redis.call('ZREM', LINE, id) == 1 then
    redis.call('ZADD', ACTIVE, text(now + claim + LEEWAY), id)
    redis.call('SET', KEYS[11 + i], record, 'PX', text(claim))
    active, budget = active + 1, budget - 1
    serving = math.max(serving, tonumber(score))
    admitted[#admitted + 1] = id
  end
end
for a = 6 + count * 3, #ARGV, 2 do
  redis.call('ZREM', LINE, ARGV[a])
  serving = math.max(serving, tonumber(ARGV[a + 1]))
end
keep_budget(now, budget)
redis.call('HSET', STATE, 'serving', text(serving))
redis.call('HSET', BATCH, 'id', ARGV[3], 'answer', table.concat(admitted, ' '))
redis.call('PEXPIRE', BATCH, 60000)
return admitted
