-- Puts what was loaded under the lease `token`, if that is still the very same lease.
-- KEYS entry, lease; ARGV token, entry or '' (give the lease back), ttl in ms, channel, key
local owner = redis.call('GET', KEYS[2])
if not owner or string.sub(owner, 1, 16) ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
redis.call('DEL', KEYS[2])
if #owner > 16 then redis.call('PUBLISH', ARGV[4], 'F' .. ARGV[5]) end
return 1
