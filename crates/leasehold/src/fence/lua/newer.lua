-- Sets, deletes or only announces, unless a larger token has been seen for the key.
--
-- KEYS  value, mark (the largest token seen)
-- ARGV  token (16 digits), how long the mark outlives the value (ms), what to do, value, ttl (ms or 0)
-- Answers the largest token seen, ours included: ours when it was done, a larger one when not.

local token, retention, what, value, ttl = unpack(ARGV)
local seen = redis.call('GET', KEYS[2])

if seen then
  if #seen ~= 16 or seen:find('%D') then
    return redis.error_reply('FOREIGN the fence of this key holds no token')
  end
  -- As text: digits of one length compare like their numbers.
  if seen > token then
    return seen
  end
end

-- The mark first: should the rest fail, smaller tokens are refused all the same.
redis.call('SET', KEYS[2], token)
if what == 'set' then
  if ttl == '0' then
    redis.call('SET', KEYS[1], value)
  else
    redis.call('SET', KEYS[1], value, 'PX', ttl)
  end
elseif what == 'delete' then
  redis.call('DEL', KEYS[1])
end

-- -1: the value stays for ever, and so does the mark; -2: there is none.
local left = redis.call('PTTL', KEYS[1])
if left ~= -1 then
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', math.max(left, 0) + retention))
end
return token
