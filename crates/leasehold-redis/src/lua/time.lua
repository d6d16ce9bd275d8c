-- One look at the server's clock for the whole call: in us, and as text of 16 digits. Such text
-- compares as the numbers do.
local clock = redis.call('TIME')
local NOW = clock[1] * 1000000 + clock[2]
local NOW_TEXT = string.format('%016.0f', NOW)
