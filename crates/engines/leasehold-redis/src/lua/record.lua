-- Functions that the scripts share: the fields of a record, the queue, and the hand-off.
-- The record's bytes are described in docs/redis-wire.md. Numbers are kept as text of 16 digits.

local NOW = NOW_TEXT + 0
local SPARE = RETAIN * 125 -- us, an eighth: so often a record in use is written with a later end
local KEPT = RETAIN * 875 -- us: a record outlives its lease by at least this time
local OFFER = 2000 -- ms: how long a pushed lease lasts unless its holder confirms it
local TOMBSTONE = 60000 -- ms: how long an ended attempt is remembered
local LEAD = 16384 -- us: how far a block of tokens may extend beyond the clock
-- The most dead waiters that one call removes, over all its keys: the server does nothing else meanwhile.
local DEAD = 64
local spare = DEAD
local NEVER = '0000000000000000'
local TOP = 9007199254740991

-- Splits a record into its fields.
local function fields(r)
  return {
    lives = string.sub(r, 3, 18),
    lost = string.sub(r, 19, 34),
    state = string.sub(r, 35, 35),
    waits = string.sub(r, 36, 36) % 2 == 1,
    tombs = string.sub(r, 36, 36) % 4 >= 2,
    owner = string.sub(r, 37, 68),
    base = string.sub(r, 69, 84),
    top = string.sub(r, 85, 100),
    ends = string.sub(r, 101, 116),
    since = string.sub(r, 117, 132),
    tail = string.sub(r, 133, 136 + string.sub(r, 133, 136)), -- with its length before it
  }
end

local function is_lock(r) return #r >= 136 and string.find(r, '^L[12]') end

-- Returns why the scripts of exclusive locks leave a record alone: S (clients read under the lock or
-- wait to read: the shared scripts handle it), K (a semaphore), L (a latch), W (clients with the option wire),
-- V newer version, F of another program.
local function why_unread(r)
  if string.find(r, '^L[3-9]') or string.find(r, '^S[2-9]') then return 'V' end
  if string.sub(r, 1, 15) == 'leasehold wire ' then return 'W' end
  if #r == 55 and string.find(r, '^S1[-K]') then return 'K' end
  if string.find(r, '^leasehold latch ') then return 'L' end
  return is_lock(r) and 'S' or 'F'
end

-- Reads a record: its fields; nil if there is none; false and a reason if these scripts cannot use the value.
local function read(key)
  local r = redis.pcall('GET', key)
  if not r then return nil end
  if type(r) == 'table' then
    -- Another program wrote a value of another type. Any other error (a missing right) is reported.
    if not string.find(r.err, 'WRONGTYPE') then error(r) end
    return false, 'F'
  end
  if #r < 136 or string.sub(r, 1, 2) ~= 'L1' or string.sub(r, 36, 36) > '3' then
    return false, why_unread(r)
  end
  return fields(r)
end

local function blank()
  return {
    state = 'F', waits = false, tombs = false, owner = string.rep('0', 32), base = NEVER,
    top = NEVER, lost = NEVER, ends = NEVER, since = NEVER, lives = NEVER, tail = '0000',
  }
end

-- Writes a record with these first two bytes and these flags. It extends the life of the key only when
-- that is needed.
local function write_as(key, rec, version, flags)
  local last = math.max(tonumber(rec.ends), NOW)
  local renewed = tonumber(rec.lives) < last
  if renewed then rec.lives = digits(last + SPARE) end
  local r = version .. rec.lives .. rec.lost .. rec.state .. flags .. rec.owner .. rec.base .. rec.top
    .. rec.ends .. rec.since .. rec.tail
  if renewed then
    redis.call('SET', key, r, 'PX', string.format('%.0f', (last - NOW) / 1000 + RETAIN))
  else
    redis.call('SETRANGE', key, '0', r)
  end
end

local function write(key, rec)
  write_as(key, rec, 'L1', (rec.waits and 1 or 0) + (rec.tombs and 2 or 0))
end

local function alive(rec) return rec.state ~= 'F' and rec.ends > NOW_TEXT end

-- Returns the remaining time in ms, rounded up, so that a client that asks again then is not too early.
local function remaining(rec) return math.ceil(math.max(0, tonumber(rec.ends) - NOW) / 1000) end

-- Parses a queue entry: attempt(32) ttl_ms(8) tokens(8) length(4) tail; its score is the ticket.
local function entry(member)
  return {
    member = member,
    attempt = string.sub(member, 1, 32),
    ttl = tonumber(string.sub(member, 33, 40)),
    tokens = tonumber(string.sub(member, 41, 48)),
    tail = string.sub(member, 49),
  }
end

-- Returns true if both the record and the key with this suffix exist. While a slot of a cluster moves,
-- the two may be on different nodes: this fails then, but a check of one key would find nothing.
local function beside(key, at) return redis.call('EXISTS', key, key .. at) == 2 end

-- Returns the first entry of the queue. The record must say that clients wait.
local function head(key)
  local first = redis.call('ZRANGE', key .. ':q', '0', '0')[1]
  if not first then beside(key, ':q') end
  return first
end

local function channel(attempt) return 'leasehold:c:' .. string.sub(attempt, 1, 16) end

-- Returns true if a client of this server receives the message. In a cluster, a client of another node
-- may receive it too, so no message may be taken back.
local function publish(attempt, message)
  return redis.call('PUBLISH', channel(attempt), message) > 0
end

-- Whether clients listen, by channel, as far as this call has asked.
local listening = {}

-- Returns false if the client certainly does not listen at this server.
local function listens(attempt)
  local to = channel(attempt)
  if listening[to] == nil then
    local answer = redis.pcall('PUBSUB', 'NUMSUB', to)
    -- Without the right this is unknown, and an offer to a client that does not listen expires.
    listening[to] = answer.err ~= nil or answer[2] ~= 0
  end
  return listening[to]
end

local function expire(rec)
  if rec.state == 'H' or rec.state == 'O' then rec.lost = rec.base end
  rec.state = 'F'
end

-- Removes an entry from the queue.
local function leave_line(key, rec, member)
  redis.call('ZREM', key .. ':q', member)
  -- An error means that the key is not on this node: its last entry was removed while its slot moves.
  rec.waits = redis.pcall('EXISTS', key .. ':q') == 1
end

-- Makes a waiter, or the attempt of an acquire, the holder. Returns false if no token is left. A waiter
-- that ends before it uses its block leaves the block reserved. Beyond LEAD a grant has one token, or
-- tokens would run ahead of the clock, and go back if the record is lost.
local function grant(key, rec, who, state, ms)
  local base = math.max(tonumber(rec.top) + 1, NOW)
  local count = math.max(math.min(who.tokens, NOW + LEAD - base), 1)
  local top = base + (count - 1) -- in this order: 2^53 + 1 is 2^53
  if top > TOP then return false end
  -- An earlier record may have been removed: how its leases ended is unknown.
  if rec.top == NEVER then rec.lost = digits(base - 1) end
  rec.state, rec.owner, rec.tail = state, who.attempt, who.tail
  rec.base, rec.top = digits(base), digits(top)
  rec.ends, rec.since = digits(NOW + ms * 1000), NOW_TEXT
  if rec.waits then leave_line(key, rec, who.member) end
  return true
end

-- Returns false if this call must leave the remaining dead waiters to the next call.
local function may_drop()
  spare = spare - 1
  return spare >= 0
end

-- Sends the first waiter the time until the lease ends. Removes waiters that cannot be reached, up to
-- the limit of one call. The caller gets the time in its answer. The record was written before this,
-- and is written again if no waiter is left.
local function tell_next(key, rec, caller)
  while rec.waits and rec.state ~= 'F' do
    local next = head(key)
    if not next then
      rec.waits = false
      return write(key, rec)
    end
    local attempt = string.sub(next, 1, 32)
    if attempt == caller then return end
    local ms = string.format('%010.0f', math.min(remaining(rec), 9999999999))
    if publish(attempt, 'N' .. attempt .. ms .. key) or not may_drop() then return end
    redis.call('ZREM', key .. ':q', next)
  end
end

-- Grants a free lock to the first waiter that listens here; the caller needs no push. Removes the
-- waiters before it, and sends them a message to ask again, since they may listen at another node. Only
-- one waiter gets a grant, after the record is written. The lock stays free if no waiter or no token is
-- left, or if one call may remove no more dead waiters: then rec.more is set, and the next call goes on.
local function hand_on(key, rec, caller)
  local handed = false
  while rec.waits and not handed do
    local next = head(key)
    if not next then
      rec.waits = false
      break
    end
    local who = entry(next)
    if who.attempt == caller then
      if not grant(key, rec, who, 'H', who.ttl) then break end
      handed = true
      write(key, rec)
    elseif listens(who.attempt) then
      local ms = math.min(OFFER, who.ttl)
      if not grant(key, rec, who, 'O', ms) then break end
      handed = true
      write(key, rec)
      publish(who.attempt, 'G' .. who.attempt .. rec.base .. rec.top .. NOW_TEXT
        .. string.format('%08d', ms) .. (rec.waits and 'w' or '-') .. key)
    elseif not may_drop() then
      rec.more = true
      break
    else
      leave_line(key, rec, next)
      publish(who.attempt, 'N' .. who.attempt .. '0000000000' .. key)
    end
  end
  if not handed then write(key, rec) end
  tell_next(key, rec, caller)
end

-- A key with an unknown value must not fail the batch: the other requests have been done.
local function guarded(step, key, arg)
  local ok, answer = pcall(step, key, arg)
  if ok then return answer end
  local why = type(answer) == 'table' and answer.err or tostring(answer)
  -- An error that concerns every key fails the whole call: rights, memory, roles.
  for _, all in ipairs({ "can't run this command", 'NOPERM', 'OOM', 'READONLY', 'MISCONF',
    'non local key' }) do
    if string.find(why, all, 1, true) then error(answer) end
  end
  return 'XF'
end
