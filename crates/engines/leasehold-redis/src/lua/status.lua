-- KEYS: one record each. Answers, seven for each: the record or nil; the server's time in us; the first
-- hundred waiters with their tickets (their time of arrival in us), and the number of all waiters; the same
-- for those who wait to read; and of the first hundred readers the attempt and the tail, in turn.
-- For a semaphore the last three are: an empty list, the number of slots in use, and of the hundred permits
-- with the latest ends the entry and the end, in turn. For a latch the last number is how many ms it is kept, or
-- less than 1 if that is unknown.
local answers = {}

-- Returns the first entries of a queue, and the number of all.
local function queue_of(key)
  local queue = redis.pcall('ZRANGE', key, '0', '99', 'WITHSCORES')
  if queue.err then return {}, 0 end
  if #queue < 200 then return queue, #queue / 2 end
  -- With commands that waiting needs too, so that status needs no further right.
  return queue, redis.call('ZRANK', key, redis.call('ZRANGE', key, '-1', '-1')[1]) + 1
end

-- Returns the readers of the phase, the longest lease first, each with its tail.
local function readers_of(key)
  local members, found = redis.pcall('ZRANGE', key .. ':m', '0', '99', 'REV', 'WITHSCORES'), {}
  if members.err then return found end
  for i = 1, #members, 2 do
    if tonumber(members[i + 1]) <= NOW_TEXT + 0 then return found end
    local from, to = '[' .. members[i], '(' .. members[i] .. 'Z'
    local tail = redis.pcall('ZRANGE', key .. ':i', from, to, 'BYLEX', 'LIMIT', '0', '1')[1]
    found[#found + 1] = members[i]
    found[#found + 1] = tail and string.sub(tail, 34) or ''
  end
  return found
end

-- Returns how many slots the permits of a semaphore have that have not expired, and these permits.
local function permits_of(key, r)
  local held, found = string.sub(r, 41, 45) - string.sub(r, 46, 50), {}
  local function entry(attempt)
    local from, to = '[' .. attempt, '(' .. attempt .. 'Z'
    return redis.pcall('ZRANGE', key .. ':pi', from, to, 'BYLEX', 'LIMIT', '0', '1')[1] or ''
  end
  local expired = redis.pcall('ZRANGE', key .. ':pe', '0', '255', 'WITHSCORES')
  if expired.err then return 0, found end
  for i = 1, #expired, 2 do
    if tonumber(expired[i + 1]) > NOW_TEXT + 0 then break end
    local _, commas = string.gsub(string.match(entry(expired[i]), '^[%d,]*', 82), ',', '')
    held = held - commas - 1
  end
  local last = redis.pcall('ZRANGE', key .. ':pe', '0', '99', 'REV', 'WITHSCORES')
  for i = 1, #last, 2 do
    if tonumber(last[i + 1]) <= NOW_TEXT + 0 then break end
    found[#found + 1] = entry(last[i])
    found[#found + 1] = string.format('%.0f', last[i + 1])
  end
  return #found > 0 and held or 0, found
end

for i, key in ipairs(KEYS) do
  local r, at = redis.pcall('GET', key), 7 * i - 6
  answers[at] = type(r) == 'table' and 'foreign' or r
  answers[at + 1] = NOW_TEXT
  local permits = type(r) == 'string' and #r == 55 and string.find(r, '^S1[-K]')
  answers[at + 2], answers[at + 3] = queue_of(key .. (permits and ':pq' or ':q'))
  answers[at + 4], answers[at + 5], answers[at + 6] = {}, 0, {}
  if type(r) == 'string' and string.find(r, '^L[12]') then
    if string.sub(r, 36, 36) > '3' then answers[at + 4], answers[at + 5] = queue_of(key .. ':r') end
    if string.sub(r, 1, 2) == 'L2' then answers[at + 6] = readers_of(key) end
  elseif permits then
    answers[at + 5], answers[at + 6] = permits_of(key, r)
  elseif type(r) == 'string' and string.find(r, '^leasehold latch ') then
    -- A user without the right to this command still sees the latch.
    local left = redis.pcall('PTTL', key)
    answers[at + 5] = type(left) == 'number' and left or 0
  end
end
return answers
