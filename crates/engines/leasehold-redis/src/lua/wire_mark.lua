-- KEYS: the record that clients without the option wire use, and its queue. ARGV: the mark of the format.
-- Answers: M marked; H clients without the option hold the lock or wait; O and the mark of another format.
local MARKED = 300000 -- ms: how long a mark stays
local mark = redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE') then error(mark) end
  return 'H'
end
if mark and string.sub(mark, 1, 15) == 'leasehold wire ' then
  if mark ~= ARGV[1] then return 'O' .. mark end
  redis.call('PEXPIRE', KEYS[1], MARKED)
  return 'M'
end
-- A record whose tokens the clock has passed is not needed any more.
local free = mark and string.find(mark, '^L1') and string.sub(mark, 35, 35) == 'F' and string.sub(mark, 36, 36) < '4'
  and string.sub(mark, 85, 100) < NOW_TEXT
if mark and not free or redis.call('EXISTS', KEYS[2]) == 1 then return 'H' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', MARKED)
return 'M'
