-- KEYS: one record each. Answers, three each: the record or nil, the server's time in us, and the
-- first hundred in line with their tickets (the time in us at which they came).
local now = string.format('%.0f', NOW)
local answers = {}
for i, key in ipairs(KEYS) do
  local r = redis.pcall('GET', key)
  answers[3 * i - 2] = type(r) == 'table' and 'foreign' or r
  answers[3 * i - 1] = now
  local queue = redis.pcall('ZRANGE', key .. ':q', '0', '99', 'WITHSCORES')
  answers[3 * i] = queue.err and {} or queue
end
return answers
