-- KEYS: the record that clients without the option wire use, and its queue. ARGV: the step, the format, and for how many ms
-- the mark is to last. Steps: W a client with wire marks the name; C a client with also that has just taken the other
-- library's lock covers its lease; K it covers it again.
-- Answers: M marked; H clients without the option hold the lock or wait; O and the format of another mark; N there is no
-- mark that a client with wire has renewed in time.
-- A mark of clients with also: also:, until when clients with wire are believed to be there (us), a colon, the format.
local STEP, FORMAT, MS = ARGV[1], ARGV[2], ARGV[3] + 0
local MARK = 'leasehold wire '
local WAITERS = 60000000 -- us
local mark = redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE') then error(mark) end
  return STEP == 'W' and 'H' or 'N'
end
local function write(text, ms) redis.call('SET', KEYS[1], MARK .. text, 'PX', string.format('%.0f', ms)) end

if mark and string.sub(mark, 1, #MARK) == MARK then
  local text, left, seen = string.sub(mark, #MARK + 1), redis.call('PTTL', KEYS[1]), nil
  if string.sub(text, 1, 5) == 'also:' then seen, text = string.sub(text, 6, 21), string.sub(text, 23) end
  if text ~= FORMAT then return 'O' .. text end
  if STEP == 'W' then
    write(FORMAT, math.max(left, MS))
    return 'M'
  end
  if STEP == 'C' and seen and seen <= NOW_TEXT then
    redis.call('DEL', KEYS[1])
    return 'N'
  end
  if left < MS then write('also:' .. (seen or digits(NOW_TEXT + left * 1000)) .. ':' .. FORMAT, MS) end
  return 'M'
end
if STEP ~= 'W' then return 'N' end
if mark and not (string.find(mark, '^L1') and string.sub(mark, 36, 36) < '4') then return 'H' end
-- A record whose lease has ended, and whose tokens the clock has passed, is not needed any more.
local is_old = false
if mark then
  local is_free, ends = string.sub(mark, 35, 35) == 'F', string.sub(mark, 101, 116)
  if not is_free and ends > NOW_TEXT or string.sub(mark, 85, 100) >= NOW_TEXT then return 'H' end
  -- Waiters that live ask again soon after the end. A queue that stays much longer is of processes that were killed.
  is_old = not is_free and ends + WAITERS < NOW_TEXT + 0
end
if not is_old and redis.call('EXISTS', KEYS[2]) == 1 then return 'H' end
write(FORMAT, MS)
return 'M'
