-- A latch: a value that a client replaces if it is still the one that the client has read.
-- KEYS: the record, and the key of a note. ARGV: G, or W (get; W writes the note, for a WAIT right after it), or
-- S ttl_ms next [seen] (store).
-- Answer: the value, or nil | R replaced | N another value is stored | X why: as in acquire.lua
local key, op, seen = KEYS[1], ARGV[1], ARGV[4]
local r = redis.pcall('GET', key)
if type(r) == 'table' then
  if not string.find(r.err, 'WRONGTYPE') then error(r) end
  return 'XF'
end
local why = r and why_unread(r) or 'L'
if why ~= 'L' then return 'X' .. why end
if op == 'S' then
  if r ~= (seen or false) then return 'N' end
  redis.call('SET', key, ARGV[3], 'PX', ARGV[2])
  return 'R'
end
if op == 'W' then redis.call('SET', KEYS[2], '', 'PX', '1000') end
return r
