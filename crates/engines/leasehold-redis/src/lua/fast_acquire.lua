-- KEYS: one record each. ARGV: the attempts (32 each), then the parameters: flags(1: bit 0 wait,
-- bit 1 fair) ttl_ms(8) tokens(8) length(4) tail. One set of parameters for all requests if they are
-- equal and no key occurs twice, otherwise one for each request.
-- Answer: one line for each request, or one for all. A base(16): granted, with all requested tokens;
-- acquire.lua lists the other answers.
--
-- The fast path of an uncontended acquire, which is the usual case: the lock is free, no client
-- waits, and there are no tombstones. All other requests take the slow path, whose functions are
-- created only then, and so do later requests for the same key. Each command, each new string and
-- each conversion of a number takes time. So records are read by one command where that has the same
-- result, and neighbours in a batch share a string that is equal.
local sub, call, left = string.sub, redis.call, nil
local answers, attempts, asks = {}, ARGV[1], #KEYS
local records = asks > 1 and #ARGV == 2 and call('MGET', unpack(KEYS))
local NOW = NOW_TEXT + 0
local said, ends, rest, least
for i = 1, asks do
  local key, r = KEYS[i], nil
  if records then
    r = records[i]
  elseif not (left and left[key]) then
    r = redis.pcall('GET', key)
  end
  local says = ARGV[i + 1] or ARGV[2]
  if says ~= said then
    said = says
    ends = digits(NOW + sub(said, 2, 9) * 1000)
    local tokens, top = sub(said, 10, 17), NOW_TEXT
    if tokens ~= '00000001' then top = digits(NOW + (tokens - 1)) end
    rest = NOW_TEXT .. top .. ends .. NOW_TEXT .. sub(said, 18)
    -- A block longer than LEAD in record.lua is cut there.
    least = top <= '9007199254740991' and tokens <= '00016384' and 'L1' .. ends or 'L2'
  end
  local granted = false
  if type(r) == 'string' then
    local start = sub(r, 1, 18)
    if start >= least and start < 'L2' and sub(r, 35, 36) == 'F0' and sub(r, 85, 100) < NOW_TEXT then
      call('SETRANGE', key, '34', 'H0' .. sub(attempts, 32 * i - 31, 32 * i) .. rest)
      granted = true
    end
  elseif r == false and least ~= 'L2' and redis.pcall('EXISTS', key, key .. ':q', key .. ':t') == 0 then
    local ttl = sub(said, 2, 9)
    call('SET', key, 'L1' .. digits(NOW + ttl * 1000 + RETAIN * 125) .. digits(NOW - 1) .. 'H0'
      .. sub(attempts, 32 * i - 31, 32 * i) .. rest, 'PX', ttl + RETAIN)
    granted = true
  end
  if not granted then
    left = left or {}
    left[key], answers[i] = true, false
  end
end
if not left then return 'A' .. NOW_TEXT end
