-- One look at the server's clock for the whole call: in us, as text of 16 digits and as a number.
-- Such text compares as the numbers do, and putting it together is cheaper than formatting.
local clock = redis.call('TIME')
local NOW_TEXT = clock[1] .. string.sub('000000' .. clock[2], -6)
local NOW = NOW_TEXT + 0
