-- KEYS: one record each. ARGV: one ask each:
-- attempt(32) flags(1: bit 0 wait, bit 1 fair) ttl_ms(8) tokens(8) length(4) tail
-- Answers, one each: G base(16) top(16) w? | Q now(16) ask_again_ms(10) place | B ask_again_ms
-- | E (ended) | X why (F foreign value, V newer version, T tokens used up)
local function remaining(rec, now)
  return math.max(0, tonumber(rec.ends) - now) / 1000
end

-- Whether others wait is told too: the holder then does not keep the lock to its own process.
local function granted(rec) return 'G' .. rec.base .. rec.top .. (rec.waits and 'w' or '') end

local function queued(key, rec, attempt, member, now)
  local place = redis.call('ZRANK', key .. ':q', member) or 0
  local again = remaining(rec, now) + place * OFFER
  return 'Q' .. digits(now) .. string.format('%010.0f', again) .. place
end

local function enqueue(key, rec, who, now)
  local queue = key .. ':q'
  if rec.waits and redis.call('ZSCORE', queue, who.member) then
    redis.call('PEXPIRE', queue, string.format('%.0f', remaining(rec, now) + RETENTION / 1000))
    return false
  end
  local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
  local ticket = now
  if last and tonumber(last) >= ticket then ticket = tonumber(last) + 1 end
  redis.call('ZADD', queue, string.format('%.0f', ticket), who.member)
  redis.call('PEXPIRE', queue, string.format('%.0f', (remaining(rec, now) + RETENTION / 1000)))
  rec.waits = true
  return true
end

-- True when the attempt was given up before this ask arrived.
local function ended(key, rec, attempt)
  if rec and not rec.tombs then return false end
  if redis.call('SISMEMBER', key .. ':t', attempt) == 1 then return true end
  if rec and redis.call('EXISTS', key .. ':t') == 0 then rec.tombs = false end
  return false
end

local function acquire(key, ask)
  local wait, fair = ask.wait, ask.fair
  local rec, why = read(key)
  if rec == false then return 'X' .. why end
  if ended(key, rec, ask.attempt) then return 'E' end
  local now = time()
  if not rec then
    rec = blank()
    -- What is left from before the record: endings that came first, a line whose record was lost.
    rec.tombs = redis.call('EXISTS', key .. ':t') == 1
    rec.waits = redis.call('EXISTS', key .. ':q') == 1
  end
  if alive(rec, now) then
    if rec.owner == ask.attempt and rec.state == 'K' then return 'E' end
    if rec.owner == ask.attempt then
      rec.state = 'H'
      local ends = digits(now + ask.ttl * 1000)
      if ends > rec.ends then rec.ends = ends end
      write(key, rec, now)
      return granted(rec)
    end
    if not wait then return 'B' .. string.format('%.0f', remaining(rec, now)) end
    if enqueue(key, rec, ask, now) then
      write(key, rec, now)
      publish(rec.owner, 'W' .. rec.owner .. key)
    end
    return queued(key, rec, ask.attempt, ask.member, now)
  end
  local late = rec.state == 'O' and rec.owner == ask.attempt
  expire(rec)
  local first = true
  if rec.waits then
    local head = redis.call('ZRANGE', key .. ':q', '0', '0')[1]
    first = not head or head == ask.member
  end
  if late or first or not fair then
    if not grant(key, rec, ask, 'H', ask.ttl, now) then return 'XT' end
    write(key, rec, now)
    local waited = rec.waits
    tell_next(key, rec, ask.attempt, now)
    if waited ~= rec.waits then write(key, rec, now) end
    return granted(rec)
  end
  if wait then enqueue(key, rec, ask, now) end
  if not hand_on(key, rec, wait and ask.attempt, now) then return 'XT' end
  if rec.state == 'F' then
    if not grant(key, rec, ask, 'H', ask.ttl, now) then return 'XT' end
    write(key, rec, now)
  end
  if rec.owner == ask.attempt then return granted(rec) end
  if wait then return queued(key, rec, ask.attempt, ask.member, now) end
  return 'B' .. string.format('%.0f', remaining(rec, now))
end

-- attempt(32) flags(1) ttl_ms(8) tokens(8) length(4) tail
local function parse(arg)
  local ask = entry(string.sub(arg, 1, 32) .. string.sub(arg, 34))
  local flags = tonumber(string.sub(arg, 33, 33))
  ask.wait, ask.fair = flags % 2 == 1, flags >= 2
  return ask
end
