-- The format of `SET NX PX`: a string under the lock's key, whose value names the owner. rueidislock has 2m-1 such keys, KEYS[4]
-- and later ones too, and who has m of them holds.
local LOCKS = { LOCK }
for at = 4, #KEYS do LOCKS[#LOCKS + 1] = KEYS[at] end
local MAJORITY = (#LOCKS + 1) / 2

-- A client of several servers asks in rounds, `leasehold:ATTEMPT:ROUND`. Its release names the attempt alone, and ends all rounds.
local function is_of(value, owner)
  return value == owner or value and string.sub(value, 1, #owner + 1) == owner .. ':'
end

-- Returns whether a value is that of an earlier round of ours, whose release may still be under way.
local function is_earlier(value)
  return #ME == 51 and #value == 51 and string.sub(value, 1, 43) == string.sub(ME, 1, 43) and value < ME
end

-- Returns the value of a key: false if there is none, nil if it is no string.
local function value_of(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'table' then return value end
  if not string.find(value.err, 'WRONGTYPE') then error(value) end
end

-- Returns what the keys hold: none, mine, taken with the owner of the most keys, or foreign.
local function look()
  local counts, most, owner = {}, 0, nil
  for _, key in ipairs(LOCKS) do
    local value = value_of(key)
    if value == nil then return 'foreign' end
    if value then
      counts[value] = (counts[value] or 0) + 1
      if counts[value] > most then most, owner = counts[value], value end
    end
  end
  if not owner or is_earlier(owner) then return 'none' end
  if is_of(owner, ME) and most >= MAJORITY then return 'mine' end
  return 'taken', owner
end

local function is_ours(value) return string.sub(value, 1, 10) == 'leasehold:' end

-- Returns for how many ms the last of the keys is taken. Below zero: without an end.
local function left()
  local longest = -2
  for _, key in ipairs(LOCKS) do
    local ms = redis.call('PTTL', key)
    if ms == -1 then return '-1' end
    if ms > longest then longest = ms end
  end
  return string.format('%.0f', longest)
end

-- Clients of rueidislock begin with the first key: without it, each of them would take it, fail at the next and give it back.
local function take(ms)
  for _, key in ipairs(LOCKS) do redis.call('SET', key, ME, 'PX', ms) end
end

-- A key that was lost is taken again: none but the owner of the others can hold.
local function prolong(ms)
  for _, key in ipairs(LOCKS) do
    local value = value_of(key)
    if value == ME then redis.call('PEXPIRE', key, ms) end
    if value == false then redis.call('SET', key, ME, 'PX', ms) end
  end
end

-- Tokens are the server's time in us, or one above the last: only our holders take one. ARGV[5], if any, is proposed instead of
-- the time, so that several servers give the same one; it counts as far as an hour ahead. Notes are there until the clock is
-- further beyond each token than BEHIND, so without them a client whose clock is behind gets no smaller token.
local BEHIND = 60000000 -- us: less than the shortest RETAIN
local function next_token(last)
  local now = NOW_TEXT + 0
  local least = last and last + 1 or now - BEHIND
  return digits(math.max(least, math.min((ARGV[5] or now) + 0, now + 3600000000)))
end

local function last_token() return redis.call('HGET', NOTES, 't') end

-- Has the tokens go on from this one.
local function raise(token) redis.call('HSET', NOTES, 't', token) end

-- Deletes what is left of an owner.
local function drop(owner)
  for _, key in ipairs(LOCKS) do
    if is_of(value_of(key), owner) then redis.call('DEL', key) end
  end
end

-- ARGV[5], if any, is a channel of Spring's registry, whose waiters listen for the key.
local function free(owner)
  drop(owner)
  if ARGV[5] then redis.call('PUBLISH', ARGV[5], LOCK) end
end
