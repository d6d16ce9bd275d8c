-- Removes shards of generations that were used and that the header does not name.
-- KEYS header, shards. What is being built (the last two bits of its stamp: 1) is left to its builder.
local header, named = KEYS[1], {}
for _, field in ipairs({'current', 'next'}) do
  local generation = redis.call('HGET', header, field)
  if generation then named[string.sub(generation, 1, 16)] = true end
end
for at = 2, #KEYS do
  local key = KEYS[at]
  local epoch = string.sub(key, #header + 2, #header + 17)
  if not named[epoch] and redis.call('TYPE', key).ok == 'string' then
    local stamp = redis.call('GETRANGE', key, 0, 7)
    if #stamp == 8 and string.byte(stamp, 8) % 4 ~= 1 then redis.call('UNLINK', key) end
  end
end
return 1
