-- The fast path of nearly every step: the lock is free, or the attempt has it, no client waits, and
-- there are no tombstones. One command reads all records, and neighbours in a batch share a string
-- that is equal.
local records, heads, steps = call('MGET', unpack(KEYS)), ARGV[1], #KEYS - 1
local node = records[1]
if not node then return call('EXISTS', KEYS[1]) == 0 and 'W' or 'X' end
if sub(node, 1, 43) ~= ADMITTED then
  if string.find(node, '^N[12]') then return 'W' end
  return string.find(node, '^N[3-9]') and 'V' or 'X'
end
MAX_TTL, high, FLOOR = sub(node, 60, 67), sub(node, 68, 83), sub(node, 84, 99)
local answers, was, step = {}, high, nil
local ended_before, said, ends, least, rest = ZERO .. NOW_TEXT, nil, nil, nil, nil

for i = 1, steps do
  local key, r, at, done = KEYS[i + 1], records[i + 1], 49 * i - 48, false
  local op, attempt = sub(heads, at, at), sub(heads, at + 1, at + 32)
  local says = ARGV[i + 1] or ARGV[2] or ''
  if says ~= said and (op == 'A' or op == 'R') then
    said = says
    local ttl = sub(says, 1, 8)
    ends = digits(NOW + ttl * 1000)
    least = ttl <= MAX_TTL and 'Q100' .. ends or 'Q2'
    ends = ends .. ends
    rest = NOW_TEXT .. sub(says, 10)
  end
  if op == 'A' then
    local value = sub(heads, at + 33, at + 48)
    if value <= NOW_TEXT or value - NOW <= HOUR then
      if r then
        local start, times, counter = sub(r, 1, 20), sub(r, 54, 85), sub(r, 118, 133)
        if start >= least and start < 'Q101' and #r >= 149 and sub(r, 21, 52) ~= attempt
          and (times > ended_before or sub(times, 17) + HOUR > NOW) and times < '0000000000000001'
          and counter > ZERO and counter < value and value > FLOOR then
          call('SETRANGE', key, '53', ends .. attempt .. value .. rest)
          done = true
        end
      elseif least ~= 'Q2' and value > high then
        local ttl = sub(says, 1, 8)
        local made = redis.pcall('SET', key, 'Q100' .. digits(NOW + ttl * 1000 + RETAIN * 125) .. ZERO .. ZERO
          .. '-' .. ends .. attempt .. value .. rest, 'NX', 'PX', ttl + RETAIN)
        done = made and made.ok
      end
    end
    if done and value > high then high = value end
  elseif not r or sub(r, 54, 69) <= NOW_TEXT or sub(r, 21, 52) == attempt then
    -- Not on the fast path.
  elseif op == 'E' then
    if sub(r, 86, 117) == attempt and sub(r, 1, 4) == 'Q100' then
      call('SETRANGE', key, '20', attempt .. 'H' .. ZERO)
      done = true
    end
  elseif op == 'R' then
    local start = sub(r, 1, 20)
    if sub(r, 86, 133) == sub(heads, at + 1, at + 48) and start >= least and start < 'Q101'
      and sub(r, 118, 133) >= FLOOR then
      call('SETRANGE', key, '53', ends)
      done = true
    end
  end
  if not done then
    step = step or long_way()
    answers[i] = step(key, sub(heads, at, at + 48), says)
  end
end
if high ~= was then call('SETRANGE', KEYS[1], '67', high) end
if not step then return 'F' end

local letters = { A = 'G', E = 'L', R = 'R' }
for i = 1, steps do
  if not answers[i] then
    local at = 49 * i - 48
    local op = sub(heads, at, at)
    answers[i] = letters[op] .. (op == 'A' and sub(heads, at + 33, at + 48) or '')
  end
end
return table.concat(answers, '\n')
