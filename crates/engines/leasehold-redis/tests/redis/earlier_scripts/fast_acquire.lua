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
    least = top <= '9007199254740991' and 'L1' .. ends or 'L2'
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
    call('SET', key, 'L1' .. digits(NOW + ttl * 1000 + 3600000000) .. '0000000000000000H0'
      .. sub(attempts, 32 * i - 31, 32 * i) .. rest, 'PX', ttl + 7200000)
    granted = true
  end
  if not granted then
    left = left or {}
    left[key], answers[i] = true, false
  end
end
if not left then return 'A' .. NOW_TEXT end
