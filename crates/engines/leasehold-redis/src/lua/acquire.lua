-- One acquire request: an attempt and its parameters: flags(1) ttl_ms(8) tokens(8) length(4) tail
-- Its answer: G base(16) top(16) w? | Q now(16) ask_again_ms(10) place | B ask_again_ms
-- | E (ended) | X why (F foreign value, V newer version, T tokens used up, S use the shared scripts)
-- `w` means that other clients wait: the holder then passes the lock on to them.
local function granted(rec) return 'G' .. rec.base .. rec.top .. (rec.waits and 'w' or '') end

local function queued(key, rec, ask)
  local place = redis.call('ZRANK', key .. ':q', ask.member) or 0
  -- If dead waiters are left, the client asks again at once, and the next call removes more of them.
  local again = rec.more and 0 or math.min(remaining(rec) + place * OFFER, 9999999999)
  return 'Q' .. NOW_TEXT .. string.format('%010.0f', again) .. place
end

local function busy(rec)
  return 'B' .. string.format('%.0f', rec.more and 0 or remaining(rec))
end

-- Adds a waiter to the queue. Returns whether it was not there yet, and then whether it is the first.
local function enqueue(key, rec, ask)
  local queue = key .. ':q'
  local life = string.format('%.0f', remaining(rec) + RETAIN)
  if rec.waits and redis.call('ZSCORE', queue, ask.member) then
    redis.call('PEXPIRE', queue, life)
    return false
  end
  local ticket = NOW
  local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
  if rec.waits and not last then beside(key, ':q') end
  if last and tonumber(last) >= ticket then ticket = tonumber(last) + 1 end
  redis.call('ZADD', queue, string.format('%.0f', ticket), ask.member)
  redis.call('PEXPIRE', queue, life)
  rec.waits = true
  return true, not last
end

-- Returns true if the attempt was ended before this request arrived.
local function ended(key, rec, attempt)
  if rec and not rec.tombs then return false end
  local over = redis.call('ZSCORE', key .. ':t', attempt)
  if over then return tonumber(over) > NOW end
  if rec and not beside(key, ':t') then rec.tombs = false end
  return false
end

local function acquire(key, ask)
  local wait = ask.wait
  local rec, why = read(key)
  if rec == false then return 'X' .. why end
  if ended(key, rec, ask.attempt) then return 'E' end
  if not rec then
    rec = blank()
    -- Keys that exist without a record: tombstones of releases that arrived first, or a queue whose
    -- record was lost.
    rec.tombs = redis.call('EXISTS', key .. ':t') == 1
    rec.waits = redis.call('EXISTS', key .. ':q') == 1
  end
  if alive(rec) then
    if rec.owner == ask.attempt then
      -- A kept lock has been released by its owner.
      if rec.state == 'K' then return 'E' end
      rec.state = 'H'
      local ends = digits(NOW + ask.ttl * 1000)
      if ends > rec.ends then rec.ends = ends end
      write(key, rec)
      return granted(rec)
    end
    if not wait then return busy(rec) end
    -- The first waiter notifies the holder, also each time that it asks again: a message may be lost. The holder
    -- knows then that others wait.
    local is_new, is_first = enqueue(key, rec, ask)
    if is_new then write(key, rec) else is_first = head(key) == ask.member end
    if is_first then publish(rec.owner, 'W' .. rec.owner .. key) end
    return queued(key, rec, ask)
  end
  local late = rec.state == 'O' and rec.owner == ask.attempt
  expire(rec)
  local first = not rec.waits
  if not first then
    local next = head(key)
    first = not next or string.sub(next, 1, 32) == ask.attempt
  end
  if not (late or first or not ask.fair) then
    if wait then enqueue(key, rec, ask) end
    hand_on(key, rec, wait and ask.attempt)
    if rec.state ~= 'F' or rec.more then
      if not rec.more and rec.owner == ask.attempt then return granted(rec) end
      return wait and queued(key, rec, ask) or busy(rec)
    end
  end
  if not grant(key, rec, ask, 'H', ask.ttl) then return 'XT' end
  write(key, rec)
  tell_next(key, rec, ask.attempt)
  return granted(rec)
end

local function parse(attempt, says)
  local ask = entry(attempt .. string.sub(says, 2))
  local flags = tonumber(string.sub(says, 1, 1))
  ask.wait, ask.fair = flags % 2 == 1, flags >= 2
  return ask
end
