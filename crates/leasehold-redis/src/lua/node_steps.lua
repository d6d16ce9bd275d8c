-- What one node of a quorum does: crates/leasehold-proto/src/quorum/node.rs, check by check.
-- KEYS: the node's own key, then one record each, of different locks. ARGV: one step each:
--   A attempt(32) ttl_ms(8) proposal(16) wait(1) length(4) tail       acquire
--   C attempt(32) from(16) token(16)                                  commit
--   R attempt(32) ttl_ms(8) token(16) heal(1) length(4) tail          renew
--   E attempt(32)                                                     release
-- The answers, a line each:
--   G counter(16) granted | B counter(16) until(16) now(16) busy | E ended | C committed | M moved
--   R renewed | H healed | N missing | L released | D not held | T max_ttl_ms(8) ttl too long
--   P proposal too far ahead | U tokens used up | X not ours | V of a newer version | ? unknown
-- Or one for all: W not admitted | X | V, of the node's key.
-- The bytes of the records are described in docs/quorum.md. Numbers are compared as text.
local sub, form, call = string.sub, string.format, redis.call
local ZERO, TOP = '0000000000000000', '9007199254740991'
local NOBODY = ZERO .. ZERO
local NOW = NOW_TEXT + 0
local HOUR = 3600000000 -- us: how far a proposal may be ahead, and how long a counter is kept
local TOMBSTONE = 60000 -- ms
local WAITERS, TOLD = 64, 3 -- noted per lock, and told of a release

local node = redis.pcall('GET', KEYS[1])
if type(node) == 'table' then
  if not string.find(node.err, 'WRONGTYPE') then error(node) end
  return 'X'
end
if not node then return 'W' end
if sub(node, 1, 43) ~= ADMITTED then
  if sub(node, 1, 2) == 'N1' then return 'W' end
  return string.find(node, '^N[2-9]') and 'V' or 'X'
end
local MAX_TTL, high = sub(node, 60, 67), sub(node, 68, 83)

-- What is the same for neighbours in a batch is written once.
local ttl_seen, ends, at_least
local function look_at_ttl(ttl)
  ttl_seen = ttl
  ends = digits(NOW + ttl * 1000)
  at_least = digits(NOW + ttl * 1000 + HOUR)
end

-- Whoever was turned away is told when the lock is let go of: a hint, and no more.
local function note_waiter(key, r, attempt)
  local line, client = key .. ':w', sub(attempt, 1, 16)
  if call('ZCARD', line) < WAITERS then call('ZADD', line, 'NX', NOW_TEXT, client) end
  local left = math.min(math.max(sub(r, 102, 117) - NOW, 0) / 1000, 3600000)
  call('PEXPIRE', line, form('%.0f', left + 10000))
  if sub(r, 4, 4) ~= '1' then call('SETRANGE', key, '3', '1') end
end

-- Tells the first in line, as many as can be reached of them: nodes may have them in another order,
-- and a client believes no single node.
local function hint(key)
  local told = 0
  for _ = 1, WAITERS do
    local client = call('ZPOPMIN', key .. ':w')[1]
    if not client then
      call('SETRANGE', key, '3', '0')
      return
    end
    local heard = redis.pcall('PUBLISH', 'leasehold:c:' .. client, 'F' .. key)
    if (tonumber(heard) or 0) > 0 then told = told + 1 end
    if told == TOLD then return end
  end
end

-- True when an attempt was ended without having had the lock, a minute ago at most.
local function is_dead(key, attempt)
  local over = call('ZSCORE', key .. ':t', attempt)
  if over then return tonumber(over) > NOW end
  if call('EXISTS', key .. ':t') == 0 then call('SETRANGE', key, '2', '0') end
  return false
end

-- A release by an attempt that does not have the lock: it is remembered, and refused from now on.
local function bury(key, r, attempt, owns)
  local before = sub(r, 5, 36) == attempt and sub(r, 37, 37) or '-'
  local had = before == 'H'
  local flag, tombs = had and 'H' or 'N', had and sub(r, 3, 3) or '1'
  if not had then
    local line = key .. ':t'
    call('ZREMRANGEBYSCORE', line, '-inf', NOW_TEXT)
    call('ZADD', line, form('%.0f', NOW + TOMBSTONE * 1000), attempt)
    call('PEXPIRE', line, '60000')
  end
  local lives, used = sub(r, 38, 53), sub(r, 118, 133)
  local longer = r == '' or lives + 0 < NOW + HOUR
  if longer then lives = digits(NOW + 2 * HOUR) end
  if used < NOW_TEXT then used = NOW_TEXT end
  local ends = owns and ZERO or sub(r, 102, 117)
  if r == '' then
    call('SET', key, 'Q110' .. attempt .. flag .. lives .. NOBODY .. ZERO .. ZERO .. used .. ZERO
      .. '0000', 'PX', '7200000')
  else
    call('SETRANGE', key, '2', tombs .. sub(r, 4, 4) .. attempt .. flag .. lives .. sub(r, 54, 101)
      .. ends .. used)
    if longer then call('PEXPIRE', key, '7200000') end
  end
  return had and 'L' or 'D'
end

local function step(key, arg)
  local op, attempt = sub(arg, 1, 1), sub(arg, 2, 33)
  local takes = op == 'A' or op == 'R'
  if takes and sub(arg, 34, 41) > MAX_TTL then return 'T' .. MAX_TTL end

  local r, counter, held, owns = call('GETRANGE', key, '0', '148'), ZERO, false, false
  if r ~= '' then
    if sub(r, 1, 2) ~= 'Q1' or #r < 149 then
      return string.find(r, '^Q[2-9]') and 'V' or 'X'
    end
    local used = sub(r, 118, 133)
    if used > NOW_TEXT or used + HOUR > NOW then
      counter = sub(r, 86, 101)
      held = sub(r, 102, 117) > NOW_TEXT
      owns = held and sub(r, 54, 85) == attempt
    else
      r = ''
    end
  end

  if op == 'E' then
    -- An ended one owns it again only by a clock that has gone back.
    if not owns or sub(r, 5, 36) == attempt then return bury(key, r, attempt, owns) end
    call('SETRANGE', key, '4', attempt .. 'H' .. sub(r, 38, 101) .. ZERO)
    if sub(r, 4, 4) == '1' then hint(key) end
    return 'L'
  end

  if op == 'C' then
    local from, token = sub(arg, 34, 49), sub(arg, 50, 65)
    if not owns or (counter ~= from and counter ~= token) or token < from then return 'M' end
    if token > high then high = token end
    call('SETRANGE', key, '85', token)
    return 'C'
  end

  if r ~= '' then
    if sub(r, 5, 36) == attempt and sub(r, 37, 37) ~= '-' then return 'E' end
    if sub(r, 3, 3) == '1' and is_dead(key, attempt) then return 'E' end
    if held and not owns then
      if op == 'A' and sub(arg, 58, 58) == '1' then note_waiter(key, r, attempt) end
      return 'B' .. counter .. sub(r, 102, 117) .. NOW_TEXT
    end
  end

  local value, answer = sub(arg, 42, 57), nil
  local floor = counter == ZERO and high or counter
  if op == 'A' then
    if held then return 'G' .. counter end
    if value > NOW_TEXT and value - NOW > HOUR then return 'P' end
    if value <= floor then
      value = digits(floor + 1)
      if value > TOP then return 'U' end
    end
    answer = 'G' .. value
  else
    if not held and sub(arg, 58, 58) ~= '1' then return 'N' end
    if value < floor then value = floor end
    answer = held and 'R' or 'H'
  end

  if value > high then high = value end
  local ttl = sub(arg, 34, 41)
  if ttl ~= ttl_seen then look_at_ttl(ttl) end
  local since = held and sub(r, 134, 149) or NOW_TEXT
  local rest = attempt .. value .. ends .. ends .. since .. sub(arg, 59)
  if r ~= '' and sub(r, 38, 53) >= at_least then
    call('SETRANGE', key, '53', rest)
  else
    -- A new record, or one whose key must live longer: not at each write.
    local first = r ~= '' and sub(r, 1, 37) or 'Q100' .. NOBODY .. '-'
    call('SET', key, first .. digits(NOW + ttl * 1000 + 2 * HOUR) .. rest,
      'PX', form('%d', ttl + 7200000))
  end
  return answer
end

-- One key that holds something strange must not fail the others.
local function failed(why)
  why = type(why) == 'table' and why.err or tostring(why)
  return string.find(why, 'WRONGTYPE', 1, true) and 'X' or '?'
end

local answers, was = {}, high
for i = 2, #KEYS do
  local ok, answer = pcall(step, KEYS[i], ARGV[i - 1])
  answers[i - 1] = ok and answer or failed(answer)
end
if high ~= was then call('SETRANGE', KEYS[1], '67', high) end
return table.concat(answers, '\n')
