-- Makes one set of numbers of two, chunk by chunk.
-- KEYS the sets of chunks: of the result, of the one, of the other; ARGV AND, OR, XOR or ANDNOT
local made, one, other = KEYS[1], KEYS[2], KEYS[3]
for _, chunk in ipairs(redis.call('SUNION', made, one, other)) do
  local to, a, b = made .. ':' .. chunk, one .. ':' .. chunk, other .. ':' .. chunk
  local operation = ARGV[1]
  if operation == 'ANDNOT' then
    -- NOT would leave out what is longer than the second.
    redis.call('BITOP', 'AND', made .. ':t', a, b)
    operation, b = 'XOR', made .. ':t'
  end
  redis.call('BITOP', operation, to, a, b)
  redis.call('DEL', made .. ':t')
  if redis.call('BITPOS', to, 1) >= 0 then
    redis.call('SADD', made, chunk)
  else
    redis.call('DEL', to)
    redis.call('SREM', made, chunk)
  end
end
