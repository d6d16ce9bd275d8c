-- Before and after a write to the database.
-- KEYS entry, lease, holds; ARGV step, token, ms, channel, key, entry, ttl in ms
-- B: begin, hold for ms; C: committed, hold on for ms; W: the same with the new entry: 1 when it was taken
-- E: replicas have caught up, end the hold: 1 when it was lost before
local function hold(ms)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
  if ms <= 0 then redis.call('ZREM', KEYS[3], ARGV[2]) return end
  redis.call('ZADD', KEYS[3], now + ms, ARGV[2])
  local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  redis.call('PEXPIRE', KEYS[3], last[2] - now + 1)
end
local ms = tonumber(ARGV[3])
local filled = 0
if ARGV[1] == 'B' then
  redis.call('DEL', KEYS[1], KEYS[2])
  hold(ms)
  -- Who writes alone may put the new entry itself. Any other write in between takes that away.
  -- It is marked, so that readers do not wait for a fill when the hold alone is lost.
  if redis.call('ZCARD', KEYS[3]) == 1 then redis.call('SET', KEYS[2], ARGV[2] .. 'w', 'PX', ms) end
elseif ARGV[1] == 'E' and redis.call('ZSCORE', KEYS[3], ARGV[2]) then
  hold(0)
  return 0
elseif ARGV[1] == 'E' then
  redis.call('DEL', KEYS[1], KEYS[2])
  filled = 1
elseif ARGV[1] == 'W' and redis.call('GET', KEYS[2]) == ARGV[2] .. 'w' then
  redis.call('SET', KEYS[1], ARGV[6], 'PX', ARGV[7])
  redis.call('DEL', KEYS[2])
  hold(ms)
  filled = 1
else
  redis.call('DEL', KEYS[1], KEYS[2])
  hold(ms)
end
redis.call('PUBLISH', ARGV[4], 'I' .. ARGV[5])
return filled
