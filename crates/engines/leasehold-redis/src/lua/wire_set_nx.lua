-- The format of `SET NX PX`: a string under the lock's key, whose value names the owner.

-- Returns what the key holds: none, mine, taken with the owner's value, or foreign.
local function look()
  local value = redis.pcall('GET', LOCK)
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE') then error(value) end
    return 'foreign'
  end
  if not value then return 'none' end
  if value == ME then return 'mine' end
  return 'taken', value
end

local function is_ours(value) return string.sub(value, 1, 10) == 'leasehold:' end

local function take(ms)
  redis.call('SET', LOCK, ME, 'PX', ms)
end

-- Tokens are the server's time in us, or one above the last: only our holders take one.
local function next_token(last)
  return digits(math.max((last or 0) + 1, NOW_TEXT + 0))
end

local function last_token() return redis.call('HGET', NOTES, 't') end

-- ARGV[5], if any, is a channel of Spring's registry, whose waiters listen for the key.
local function free()
  redis.call('DEL', LOCK)
  if ARGV[5] then redis.call('PUBLISH', ARGV[5], LOCK) end
end
