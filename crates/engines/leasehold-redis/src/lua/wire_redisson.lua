-- Redisson's format, held as the writer of a RReadWriteLock holds it: a hash with the field `mode` and a
-- field for the owner. Every lock of Redisson waits for that; a RReadWriteLock ignores the form of a RLock.
-- KEYS[4] is the counter of RFencedLock, KEYS[5] the queue of a fair lock.
local FIELD = ME .. ':write'

-- Returns what the key holds: none, mine, taken with the owner, or foreign.
local function look()
  local kind = redis.call('TYPE', LOCK).ok
  if kind == 'none' then return 'none' end
  if kind ~= 'hash' then return 'foreign' end
  local fields = redis.call('HLEN', LOCK)
  if fields == 2 and redis.call('HGET', LOCK, 'mode') == 'write' and redis.call('HEXISTS', LOCK, FIELD) == 1 then
    return 'mine'
  end
  local owner = ''
  if fields <= 16 then
    for _, field in ipairs(redis.call('HKEYS', LOCK)) do
      if field ~= 'mode' then owner = field end
    end
  end
  return 'taken', owner
end

local function is_ours(owner) return string.sub(owner, 1, 10) == 'leasehold:' end

local function left() return string.format('%.0f', redis.call('PTTL', LOCK)) end

local function prolong(ms) redis.call('PEXPIRE', LOCK, ms) end

local function take(ms)
  redis.call('HSET', LOCK, 'mode', 'write', FIELD, '1')
  redis.call('PEXPIRE', LOCK, ms)
end

-- The counter that RFencedLock counts on too.
local function next_token()
  return digits(redis.call('INCR', KEYS[4]))
end

local function last_token()
  local last = redis.call('GET', KEYS[4])
  return last and digits(last)
end

-- Has the counter go on from this token, unless it is there already.
local function raise(token)
  if (last_token() or '') < token then redis.call('SET', KEYS[4], string.format('%.0f', token), 'KEEPTTL') end
end

-- In a cluster Redisson's waiters subscribe with SSUBSCRIBE.
local function say(channel, message)
  redis.call('PUBLISH', channel, message)
  if ARGV[5] == '1' then redis.pcall('SPUBLISH', channel, message) end
end

-- Nothing is left of an owner without the lock.
local function drop() end

-- ARGV[6] and ARGV[7] are the channels of RLock and of RReadWriteLock. The first waiter of a fair lock has a channel of
-- its own.
local function free()
  redis.call('DEL', LOCK)
  say(ARGV[6], '0')
  say(ARGV[7], '1')
  local first = redis.pcall('LINDEX', KEYS[5], '0')
  if type(first) == 'string' then say(ARGV[6] .. ':' .. first, '0') end
end
