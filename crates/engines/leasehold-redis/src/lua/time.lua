-- The server's time for the whole call, read once: in us, as text of 16 digits. Such texts compare as
-- the numbers do, and concatenation is faster than formatting.
local clock = redis.call('TIME')
local NOW_TEXT = (#clock[1] == 10 and clock[1] or string.sub('0000000000' .. clock[1], -10))
  .. (#clock[2] == 6 and clock[2] or string.sub('000000' .. clock[2], -6))

-- Returns a number as such a text. `%.0f` takes three times as long, and `%d` alone is not wide enough everywhere.
local function digits(n)
  local us = n % 1000000
  return string.format('%010d%06d', (n - us) / 1000000, us)
end
