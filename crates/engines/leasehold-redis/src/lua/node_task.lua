-- One step of an admission. KEYS: the node's own key. ARGV: one of
--   P nonce(16) max_ttl_ms(8)   propose: write a marker that waits, unless this process has a marker
--   F nonce(16) max_ttl_ms(8)   the same at a first start: replaces a marker that waits with another max_ttl
--   H                           return the high-water mark; only of an admitted node
--   A nonce(16) [floor(16)]     admit, if the marker still has this nonce; counters start above
--                               floor, or above the server's clock
-- Answer: the content of the node's key after the step; empty if there is no marker of this process
-- | W not admitted | X not ours | V of a newer version
local sub, call = string.sub, redis.call
local key, arg = KEYS[1], ARGV[1]
local node = redis.pcall('GET', key)
if type(node) == 'table' then
  if not string.find(node.err, 'WRONGTYPE') then error(node) end
  return 'X'
end
local old = node and sub(node, 1, 2) == 'N1' and #node == 83 -- Written by an earlier process.
if node and not old and (sub(node, 1, 2) ~= 'N2' or #node ~= 99) then
  return string.find(node, '^N[3-9]') and 'V' or 'X'
end
local mine = node and not old and sub(node, 4, 43) == RUN_ID
local op = sub(arg, 1, 1)
if op == 'P' or op == 'F' then
  local waits = mine and sub(node, 3, 3) == 'W'
  if not mine or op == 'F' and waits and sub(node, 60, 67) ~= sub(arg, 18, 25) then
    local high = node and sub(node, 68, 83) or '0000000000000000'
    node = 'N2W' .. RUN_ID .. sub(arg, 2, 25) .. high .. '0000000000000000'
    call('SET', key, node)
  end
  return node
end
if op == 'H' then
  return mine and sub(node, 3, 3) == 'A' and node or 'W'
end
if not mine then return '' end
if sub(node, 44, 59) == sub(arg, 2, 17) then
  local high, floor, was = sub(node, 68, 83), sub(arg, 18, 33), sub(node, 3, 3)
  if floor == '' then floor = string.format('%010d%06d', unpack(call('TIME'))) end
  if floor > high then high = floor end
  node = 'N2A' .. sub(node, 4, 67) .. high .. (was == 'A' and sub(node, 84, 99) or high)
  call('SET', key, node)
end
return node
