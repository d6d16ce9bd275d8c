-- KEYS: one record each. Answer: the server's time in us, then each record unchanged, or nil.
local clock = redis.call('TIME')
local answers = { string.sub('0000000000' .. clock[1], -10) .. string.sub('000000' .. clock[2], -6) }
for i, key in ipairs(KEYS) do
  local r = redis.pcall('GET', key)
  if type(r) == 'table' and not string.find(r.err, 'WRONGTYPE') then error(r) end
  answers[i + 1] = type(r) == 'table' and 'foreign' or r
end
return answers
