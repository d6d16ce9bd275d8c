-- One node of a quorum, as crates/leasehold-proto/src/quorum/node.rs, with the same checks in the same order.
-- KEYS: the node's own key, then one record for each step, of different locks. ARGV: the steps, 49 bytes
-- each, one after the other: op(1) attempt(32) token(16); then their parameters, once for all steps if
-- they are equal, otherwise once for each:
--   A with its proposal                ttl_ms(8) wait(1) length(4) tail    acquire
--   C with the new token               from(16)                            commit
--   R with the lease's token           ttl_ms(8) heal(1) length(4) tail    renew
--   E                                                                      release
-- The answers, one line for each step:
--   G counter(16) granted | B counter(16) until(16) now(16) busy | E ended | C committed | M moved
--   R renewed | H healed | N missing | L released | Y released, and waiters of other clients notified
--   | D not held | T max_ttl_ms(8) ttl too long
--   P proposal too far ahead | U tokens used up | X not ours | V of a newer version | ? unknown
-- Or one answer for all: F each step succeeded (its proposal granted, renewed, released)
--   | W not admitted | X | V, about the node's key.
-- The bytes of the records are described in docs/redis-wire.md. Numbers are compared as text.
local sub, call = string.sub, redis.call
local HOUR = 3600000000 -- us: the most that a proposal may be ahead, and how long a counter is kept
local ZERO, NOW, MAX_TTL, high, FLOOR = '0000000000000000', NOW_TEXT + 0, nil, nil, nil

-- The slow path: any step in any state. It is created when a step needs it, which is rare.
local function long_way()
  local form, TOP, NOBODY = string.format, '9007199254740991', ZERO .. ZERO
  local TOMBSTONE = 60000 -- ms
  local WAITERS, NOTIFIED = 64, 3 -- noted per lock, and notified of a release
  local RECENT = 1000000 -- us: how long the note of a client that has released lasts

  -- Notes a client that was refused, so that a release of the lock notifies it. The message is a hint.
  local function note_waiter(key, r, attempt)
    local line, client = key .. ':w', sub(attempt, 1, 16)
    if call('ZCARD', line) < WAITERS then call('ZADD', line, 'NX', NOW_TEXT, client) end
    local left = math.min(math.max(sub(r, 54, 69) - NOW, 0) / 1000, 3600000)
    call('PEXPIRE', line, form('%.0f', left + 10000))
    if sub(r, 4, 4) ~= '1' then call('SETRANGE', key, '3', '1') end
  end

  -- Notifies the first waiters that can be reached, up to NOTIFIED of them: other nodes may have another
  -- order, and a client does not rely on a single node. If all of them are of other clients, the client that has
  -- released lets them go first; it is noted, with a ~, so that the next release notifies it beside these.
  local function hint(key, attempt)
    local line, own, waiters, told = key .. ':w', sub(attempt, 1, 16), 0, {}
    local reached = false
    for _ = 1, WAITERS do
      local first = call('ZPOPMIN', line)
      if not first[1] then
        call('SETRANGE', key, '3', '0')
        break
      end
      local client = sub(first[1], 1, 16)
      local waits = client == first[1]
      if not told[client] and (waits or first[2] + RECENT > NOW) then
        local receivers = redis.pcall('PUBLISH', 'leasehold:c:' .. client, 'F' .. key)
        if (tonumber(receivers) or 0) > 0 then
          reached, told[client] = true, true
          if waits then waiters = waiters + 1 end
        end
      end
      if waiters == NOTIFIED then break end
    end
    if not reached or told[own] then return 'L' end
    local is_new = call('ZCARD', line) == 0
    call('ZADD', line, NOW_TEXT, own .. '~')
    if is_new then call('PEXPIRE', line, '10000') end
    call('SETRANGE', key, '3', '1')
    return 'Y'
  end

  -- Returns true if an attempt that never had the lock was ended in the last minute.
  local function is_dead(key, attempt)
    local over = call('ZSCORE', key .. ':t', attempt)
    if over then return tonumber(over) > NOW end
    if call('EXISTS', key .. ':t') == 0 then call('SETRANGE', key, '2', '0') end
    return false
  end

  -- A release by an attempt that does not have the lock: its later requests are refused.
  local function bury(key, r, attempt, owns)
    local before = sub(r, 21, 52) == attempt and sub(r, 53, 53) or '-'
    local had = before == 'H'
    local flag, tombs = had and 'H' or 'N', had and sub(r, 3, 3) or '1'
    if not had then
      local line = key .. ':t'
      -- Remove expired tombstones, at most WAITERS per step.
      local last = call('ZRANGE', line, WAITERS - 1, WAITERS - 1, 'WITHSCORES')[2]
      call('ZREMRANGEBYSCORE', line, '-inf', last and tonumber(last) < NOW and last or NOW_TEXT)
      call('ZADD', line, form('%.0f', NOW + TOMBSTONE * 1000), attempt)
      call('PEXPIRE', line, '60000')
    end
    local lives, used = sub(r, 5, 20), sub(r, 70, 85)
    local longer = r == '' or lives < NOW_TEXT
    if longer then lives = digits(NOW + RETAIN * 125) end
    if used < NOW_TEXT then used = NOW_TEXT end
    local until_us = owns and ZERO or sub(r, 54, 69)
    if r == '' then
      call('SET', key, 'Q110' .. lives .. attempt .. flag .. ZERO .. used .. NOBODY .. ZERO .. ZERO
        .. '0000', 'PX', RETAIN)
    else
      call('SETRANGE', key, '2', tombs .. sub(r, 4, 4) .. lives .. attempt .. flag .. until_us .. used)
      if longer then call('PEXPIRE', key, RETAIN) end
    end
    return had and 'L' or 'D'
  end

  local function step(key, op, attempt, value, says)
    local ttl, flag = sub(says, 1, 8), sub(says, 9, 9)
    local takes = op == 'A' or op == 'R'
    if takes and ttl > MAX_TTL then return 'T' .. MAX_TTL end

    local r, counter, held, owns = call('GETRANGE', key, '0', '148'), ZERO, false, false
    if r ~= '' then
      if sub(r, 1, 2) ~= 'Q1' or #r < 149 then
        return string.find(r, '^Q[2-9]') and 'V' or 'X'
      end
      local used = sub(r, 70, 85)
      if used > NOW_TEXT or used + HOUR > NOW then
        counter = sub(r, 118, 133)
        held = sub(r, 54, 69) > NOW_TEXT
        owns = held and sub(r, 86, 117) == attempt
      else
        r = ''
      end
    end

    if op == 'E' then
      -- An ended attempt has the lease again only if the clock was set back.
      if not owns or sub(r, 21, 52) == attempt then return bury(key, r, attempt, owns) end
      call('SETRANGE', key, '20', attempt .. 'H' .. ZERO)
      return sub(r, 4, 4) == '1' and hint(key, attempt) or 'L'
    end

    if op == 'C' then
      local from = sub(says, 1, 16)
      if not owns or (counter ~= from and counter ~= value) or value < from then return 'M' end
      if value > high then high = value end
      call('SETRANGE', key, '117', value)
      return 'C'
    end

    if r ~= '' then
      if sub(r, 21, 52) == attempt and sub(r, 53, 53) ~= '-' then return 'E' end
      if sub(r, 3, 3) == '1' and is_dead(key, attempt) then return 'E' end
      if held and not owns then
        if op == 'A' and flag == '1' then note_waiter(key, r, attempt) end
        return 'B' .. counter .. sub(r, 54, 69) .. NOW_TEXT
      end
    end

    local answer
    local floor = counter == ZERO and high or counter
    if floor < FLOOR then floor = FLOOR end -- The counter is older than the node's admission.
    if op == 'A' then
      if held then return 'G' .. counter end
      if value > NOW_TEXT and value - NOW > HOUR then return 'P' end
      if value <= floor then
        value = digits(floor + 1)
        if value > TOP then return 'U' end
      end
      answer = 'G' .. value
    else
      if not held and flag ~= '1' then return 'N' end
      if value < floor then value = floor end
      answer = held and 'R' or 'H'
    end

    if value > high then high = value end
    local ends = digits(NOW + ttl * 1000)
    local since = held and sub(r, 134, 149) or NOW_TEXT
    local rest = ends .. ends .. attempt .. value .. since .. sub(says, 10)
    if r ~= '' and sub(r, 5, 20) >= ends then
      call('SETRANGE', key, '53', rest)
    else
      -- A new record, or a key that must live longer, which not each write needs.
      local ended = r ~= '' and sub(r, 21, 53) or NOBODY .. '-'
      call('SET', key, (r ~= '' and sub(r, 1, 4) or 'Q100') .. digits(NOW + ttl * 1000 + RETAIN * 125)
        .. ended .. rest, 'PX', form('%.0f', ttl + RETAIN))
    end
    return answer
  end

  -- A key with an unknown value must not fail the steps on other keys.
  local function failed(why)
    why = type(why) == 'table' and why.err or tostring(why)
    return string.find(why, 'WRONGTYPE', 1, true) and 'X' or '?'
  end

  return function(key, head, says)
    local ok, answer = pcall(step, key, sub(head, 1, 1), sub(head, 2, 33), sub(head, 34), says)
    return ok and answer or failed(answer)
  end
end
