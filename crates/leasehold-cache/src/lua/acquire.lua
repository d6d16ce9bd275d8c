-- A miss, or an entry that wants to be loaded anew: may the caller load it?
-- KEYS entry, lease, holds; ARGV token, lease in ms, id of the entry that is to be replaced or '', the
-- server's run: an entry of another run is none
-- F entry: there is one by now; H ms: a write is under way; B ms: another process loads;
-- W: load and fill; X: what lies there is not ours
local entry = redis.pcall('GET', KEYS[1])
if type(entry) == 'table' then return {'X'} end
if entry then
  if string.sub(entry, 1, 2) ~= 'L1' then return {'X'} end
  local id = string.sub(entry, 4, 11)
  if id ~= ARGV[3] and string.sub(id, 1, 5) == ARGV[4] then return {'F', entry} end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if last[2] then return {'H', last[2] - now} end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return {'W'} end
local owner = redis.call('GET', KEYS[2])
if string.sub(owner, 1, 16) == ARGV[1] then return {'W'} end
-- A writer's, whose hold was lost.
if string.sub(owner, 17, 17) == 'w' then return {'H', redis.call('PTTL', KEYS[2])} end
-- The plus tells the process that fills the entry to notify a waiter.
if #owner == 16 then redis.call('SET', KEYS[2], owner .. '+', 'KEEPTTL') end
return {'B', redis.call('PTTL', KEYS[2])}
