-- The short way of the uncontended case, which is nearly every case: nobody waits, nothing was given
-- up. What is left over goes the long way, whose functions are made only then. Text of 16 digits
-- compares as numbers do; to make text of numbers is what costs, so it is done once for neighbours
-- in a batch, or not at all.
local sub, form, call, pcall_redis = string.sub, string.format, redis.call, redis.pcall
local t = call('TIME')
local batch_text = t[1] .. sub('000000', #t[2] + 1) .. t[2]
local answers, left = {}, false
