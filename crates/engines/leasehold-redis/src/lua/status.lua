-- KEYS: one record each. Answers, four for each: the record or nil, the server's time in us, the first
-- hundred waiters with their tickets (their time of arrival in us), and the number of all waiters.
local answers = {}
for i, key in ipairs(KEYS) do
  local r = redis.pcall('GET', key)
  answers[4 * i - 3] = type(r) == 'table' and 'foreign' or r
  answers[4 * i - 2] = NOW_TEXT
  local queue = redis.pcall('ZRANGE', key .. ':q', '0', '99', 'WITHSCORES')
  if queue.err then queue = {} end
  answers[4 * i - 1] = queue
  answers[4 * i] = #queue / 2
  if #queue == 200 then
    -- With commands that waiting needs too, so that status needs no further right.
    local last = redis.call('ZRANGE', key .. ':q', '-1', '-1')[1]
    answers[4 * i] = redis.call('ZRANK', key .. ':q', last) + 1
  end
end
return answers
