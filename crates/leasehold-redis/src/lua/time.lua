-- One look at the server's clock for the whole call: in us, as text of 16 digits. Such text compares
-- as the numbers do, and putting it together is cheaper than formatting.
local clock = redis.call('TIME')
local NOW_TEXT = (#clock[1] == 10 and clock[1] or string.sub('0000000000' .. clock[1], -10))
  .. (#clock[2] == 6 and clock[2] or string.sub('000000' .. clock[2], -6))

-- Such text of a number. `%.0f` takes three times as long, `%d` alone is not wide enough everywhere.
local function digits(n)
  local us = n % 1000000
  return string.format('%010d%06d', (n - us) / 1000000, us)
end
