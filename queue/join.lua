-- join.lua: answer a batch of visits in order of arrival. One batch is one round trip.
-- KEYS      the room's fixed keys; used:<this generation>; here:<this generation>:<window>; then for each visit
--           token:<new id>, token:<old id>, used:<generation of old>, here:<generation of old>:<window> (those of the new
--           place repeated where there is no old one)
-- ARGV      generation, highest number the node has seen, most that may wait (0 = no bound), 1 if this batch may have
--           run before, 1 if nobody may be admitted at once, number of visits; then for each: kind, new id, old id or '', old score, digest or ''
--           kinds: j = join, a = ask after an old place, e = enter at once or not at all
-- Returns for each visit {code, place id, score, more}: W waiting (more = how many are ahead), A admitted (more = the
-- record), E the place is used up, C closed, F the line is full, N no room to enter at once, R the customer's place has
-- changed meanwhile: look again. Or the error NOGEN.
local wrong = other_generation(ARGV[1])
if wrong then return wrong end
local USED, HERE = KEYS[12], KEYS[13]
local now = now_ms()
local gen = tonumber(ARGV[1])
local base = gen * 268435456
local most = tonumber(ARGV[3])
local again, calm = ARGV[4] == '1', ARGV[5] == '1'

local high = tonumber(ARGV[2])
if tonumber(redis.call('GET', SEQ) or '0') < high then redis.call('SET', SEQ, text(high)) end

local set = redis.call('HMGET', STATE, 'mode', 'rate', 'limit', 'opens', 'claim', 'session', 'looked', 'calm')
local mode, rate, limit = set[1], tonumber(set[2] or '0'), tonumber(set[3] or '0')
local waiting = redis.call('ZCARD', LINE)
local active, budget -- read when first needed
local joined = false
local entered = 0 -- the highest score admitted at once

local function spare()
  if calm or mode ~= 'open' or waiting > 0 or now < tonumber(set[4]) then return false end
  if now - tonumber(set[7]) > 3000 or now < tonumber(set[8]) then return false end -- nobody leads, or only since just now
  if not active then
    active, budget = count_active(now), budget_at(now, rate)
  end
  return active < limit and budget >= 1
end

-- A new number whose holder is admitted at once: until the claim window ends if a second request must confirm it.
local function enter(id, token, provisional)
  local number = redis.call('INCR', SEQ)
  local session = tonumber(set[6])
  local ends = now + (provisional and math.min(tonumber(set[5]), session) or session)
  redis.call('ZADD', ACTIVE, text(ends + LEEWAY), id)
  if provisional then
    redis.call('ZADD', PROVISIONAL, text(ends + LEEWAY), id)
  else
    redis.call('SETBIT', USED, number, 1)
  end
  local record = table.concat({text(ends), text(now), text(now), text(base + number), provisional and 'p' or '-', '-'}, ' ')
  redis.call('SET', token, record, 'PX', text(ends - now))
  active, budget, entered = active + 1, budget - 1, base + number
  return {'A', id, text(base + number), record}
end

-- What has become of a place that was given earlier; nil if its turn was used or given up.
local function find(id, score, token, used, here)
  local number = score % 268435456
  local record = redis.call('GET', token)
  local taken = redis.call('GETBIT', used, number) == 1
  if record and (taken or redis.call('ZSCORE', PROVISIONAL, id)) then return {'A', id, text(score), record} end
  if taken then return nil end
  if record and redis.call('ZSCORE', ACTIVE, id) then
    local ends = tonumber(string.match(record, '^%d+'))
    redis.call('SETBIT', used, number, 1)
    redis.call('ZADD', ACTIVE, text(ends + LEEWAY), id)
    redis.call('PEXPIREAT', token, text(ends))
    return {'A', id, text(score), record}
  end
  local ahead = redis.call('ZRANK', LINE, id)
  if not ahead then -- skipped as absent, not claimed in time, or lost by Redis: back with the old score
    redis.call('ZADD', LINE, text(score), id)
    redis.call('SETBIT', here, number, 1)
    redis.call('PEXPIRE', here, 60000)
    waiting = waiting + 1
    ahead = redis.call('ZRANK', LINE, id)
  end
  return {'W', id, text(score), ahead}
end

-- A place given by an earlier run of this very batch, whose answer was lost.
local function given(id, token)
  local record = redis.call('GET', token)
  local score = redis.call('ZSCORE', LINE, id) or (record and string.match(record, '^%d+ %d+ %d+ (%d+)'))
  if score then return find(id, tonumber(score), token, USED, HERE) end
end

local function join(id, token)
  if mode == 'closed' or mode == 'full' then return {'C', '', '0', mode} end
  if spare() then return enter(id, token, false) end
  if most > 0 and waiting >= most then return {'F', '', '0', text(most)} end
  local number = redis.call('INCR', SEQ)
  redis.call('ZADD', LINE, text(base + number), id)
  redis.call('SETBIT', HERE, number, 1)
  waiting, joined = waiting + 1, true
  return {'W', id, text(base + number), waiting - 1}
end

local function visit(kind, id, old, score, digest, token, oldtoken, used, here)
  if digest ~= '' then
    local mine = redis.call('HGET', WHO, digest)
    if mine and string.match(mine, '^%S+') ~= old and not (again and string.match(mine, '^%S+') == id) then
      return {'R', '', '0', ''}
    end
  end
  local answer = old ~= '' and find(old, score, oldtoken, used, here) or nil
  if answer then return answer end
  if kind == 'a' then return {'E', old, text(score), ''} end
  if again then answer = given(id, token) end
  if answer then return answer end
  if kind == 'j' then return join(id, token) end
  local room = spare() and redis.call('ZCARD', PROVISIONAL) < math.max(1, math.floor(limit / 5))
  return room and enter(id, token, true) or {'N', '', '0', ''}
end

local answers = {}
for i = 1, tonumber(ARGV[6]) do
  local a, k = 6 + (i - 1) * 5, 13 + (i - 1) * 4
  local digest = ARGV[a + 5]
  local answer = visit(ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], tonumber(ARGV[a + 4]), digest,
    KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4])
  if digest ~= '' and (answer[1] == 'W' or answer[1] == 'A') then
    redis.call('HSET', WHO, digest, answer[2] .. ' ' .. answer[3])
    redis.call('EXPIRE', WHO, 172800)
  end
  answers[i] = answer
end
if joined then redis.call('PEXPIRE', HERE, 60000) end
if entered > 0 then -- nobody waited, so every turn up to this one has come
  keep_budget(now, budget)
  if entered > tonumber(redis.call('HGET', STATE, 'serving') or '0') then redis.call('HSET', STATE, 'serving', text(entered)) end
end
return answers
