-- The steps of a filter's life.
-- KEYS header, shards of the current generation, shards of the next
-- ARGV step, number of shards of the current, current, next, a stamp for each shard in their order, and
-- the server's run in which the next is built
-- P: publish the first; B: begin to build the next; G: the next is gone, give it up; S: swap
local header, old, run = KEYS[1], tonumber(ARGV[2]), ARGV[#ARGV]
local function stamped(key)
  local stamp = redis.call('GETRANGE', key, 0, 7)
  return stamp ~= '' and stamp ~= string.rep('\0', 8)
end
local function stamp(from, to)
  for shard = from, to do
    if stamped(KEYS[shard]) then redis.call('SETRANGE', KEYS[shard], 0, ARGV[shard + 3]) end
  end
end
local function is(field, value)
  return (redis.call('HGET', header, field) or '') == value
end
local function whole(from, to)
  for shard = from, to do
    if not stamped(KEYS[shard]) then return false end
  end
  return true
end
if ARGV[1] == 'P' then
  if redis.call('EXISTS', header) == 1 or not whole(2, #KEYS) then return 0 end
  redis.call('HSET', header, 'v', '1', 'current', ARGV[4], 'run', run)
elseif ARGV[1] == 'B' then
  if not is('current', ARGV[3]) then return 0 end
  local other = redis.call('HGET', header, 'next')
  -- One that was begun in another run lacks what was lost, and is never swapped in.
  local alive = other and stamped(header .. ':' .. string.sub(other, 1, 16) .. ':0')
  if alive and is('next_run', run) then return 0 end
  redis.call('HSET', header, 'v', '1', 'next', ARGV[4], 'next_run', run)
  stamp(2, 1 + old)
  return 1
elseif ARGV[1] == 'G' then
  if not is('current', ARGV[3]) or not is('next', ARGV[4]) then return 0 end
  if stamped(KEYS[2 + old]) then return 0 end
  redis.call('HDEL', header, 'next', 'next_run')
  stamp(2, 1 + old)
  return 1
else
  if not is('current', ARGV[3]) or not is('next', ARGV[4]) then return 0 end
  if not whole(2 + old, #KEYS) then return 0 end
  redis.call('HSET', header, 'current', ARGV[4], 'run', run)
  redis.call('HDEL', header, 'next', 'next_run')
  for shard = 2, 1 + old do redis.call('UNLINK', KEYS[shard]) end
end
stamp(2 + old, #KEYS)
for shard = 2 + old, #KEYS do redis.call('PERSIST', KEYS[shard]) end
return 1
