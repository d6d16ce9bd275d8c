local clock = redis.call('TIME')
local NOW_TEXT = (#clock[1] == 10 and clock[1] or string.sub('0000000000' .. clock[1], -10))
  .. (#clock[2] == 6 and clock[2] or string.sub('000000' .. clock[2], -6))
local function digits(n)
  local us = n % 1000000
  return string.format('%010d%06d', (n - us) / 1000000, us)
end
