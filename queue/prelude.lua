-- prelude.lua: put in front of every script. Names the fixed keys of a room and holds what several scripts do.
-- KEYS[1]  HASH    state        gen, serving, ended (a counter), snap, looked, amnesty and calm (ms, see look.lua), and the
--                               settings that the leader decided: mode, rate (per second), limit, opens, claim, session (ms)
-- KEYS[2]  STRING  seq          last number given in this generation
-- KEYS[3]  ZSET    line         place id -> score
-- KEYS[4]  ZSET    active       place id -> session end + 2 s (ms since the epoch)
-- KEYS[5]  ZSET    provisional  place id -> session end + 2 s, of sessions that no second request has confirmed
-- KEYS[6]  ZSET    ended        place id -> end of the access token of a session that ended early (ms)
-- KEYS[7]  HASH    who          HMAC of an identity -> "place id, score"
-- KEYS[8]  STRING  lease        the leader
-- KEYS[9]  STRING  fence        highest term seen
-- KEYS[10] HASH    pace         budget (admissions, with fractions), at (ms)
-- KEYS[11] HASH    batch        id and answer of the last admission batch
-- A place's record, in token:<place id>: "exp iat start score flag jwt": ms, ms, ms, the score, '-' or 'p'
-- (provisional), and the access token, or '-' where the node that hands it out signs it.
local STATE, SEQ, LINE, ACTIVE, PROVISIONAL, ENDED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local WHO, LEASE, FENCE, PACE, BATCH = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local LEEWAY = 2000 -- the verifier's leeway: a slot is free only when the token cannot pass any more

local function text(n) return string.format('%.0f', n) end

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- The script's error if Redis stands in another generation than the caller, else nil.
local function other_generation(gen)
  local stored = redis.call('HGET', STATE, 'gen')
  if stored ~= gen then return redis.error_reply('NOGEN ' .. (stored or '0')) end
end

-- The script's error if a later term has acted, else nil; remembers a newer term.
local function stale_term(term)
  local stored = tonumber(redis.call('GET', FENCE) or '0')
  if stored > tonumber(term) then return redis.error_reply('STALETERM ' .. text(stored)) end
  if stored < tonumber(term) then redis.call('SET', FENCE, term) end
end

-- How many are active now.
local function count_active(now)
  redis.call('ZREMRANGEBYSCORE', ACTIVE, '-inf', text(now))
  redis.call('ZREMRANGEBYSCORE', PROVISIONAL, '-inf', text(now))
  return redis.call('ZCARD', ACTIVE)
end

-- The admission budget now. It grows with the rate up to one second's worth (at least one), so a pause saves nothing up.
local function budget_at(now, rate)
  if rate <= 0 then return 0 end
  local stored = redis.call('HMGET', PACE, 'budget', 'at')
  local most = math.max(1, rate)
  if not stored[1] then return most end
  local passed = math.max(0, now - tonumber(stored[2]))
  return math.min(most, tonumber(stored[1]) + rate * passed / 1000)
end

local function keep_budget(now, budget)
  redis.call('HSET', PACE, 'budget', string.format('%.6f', budget), 'at', text(now))
end
