-- Sets a value if the key's owner is this attempt.
--
-- KEYS  value, owner
-- ARGV  attempt, how long the owner is remembered (ms), value, ttl (ms or 0)
-- Answers the owner, or nil if no attempt has claimed the key; the value was set if the owner is this attempt.

local attempt, retention, value, ttl = unpack(ARGV)
local owner = redis.call('GET', KEYS[2])

if owner == attempt then
  if ttl == '0' then
    redis.call('SET', KEYS[1], value)
  else
    redis.call('SET', KEYS[1], value, 'PX', ttl)
  end
  redis.call('PEXPIRE', KEYS[2], retention)
end
return owner
