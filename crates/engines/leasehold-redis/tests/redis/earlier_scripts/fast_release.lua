local sub, call, left = string.sub, redis.call, nil
local answers, held, ends = {}, ARGV[1], #KEYS
if held ~= '' then
  local records = ends > 1 and call('MGET', unpack(KEYS))
  for i = 1, ends do
    local key, r = KEYS[i], nil
    if records then r = records[i] else r = redis.pcall('GET', key) end
    if type(r) == 'string' and sub(r, 35, 100) == sub(held, 66 * i - 65, 66 * i)
      and sub(r, 1, 2) == 'L1' and sub(r, 101, 116) > NOW_TEXT then
      call('SETRANGE', key, '34', 'F')
    else
      left, answers[i] = true, false
    end
  end
  if not left then return 'R' end
end
