-- The short way of the uncontended release: base and last given, not suspect, nothing to keep, nobody
-- waits. The rest as in fast_acquire.lua.
local sub, call, answers, left = string.sub, redis.call, {}, nil
for i = 1, #KEYS do
  local key, arg = KEYS[i], ARGV[i]
  local short = sub(arg, 65, 73) == '300000000' and not (left and left[key])
  local r = short and redis.pcall('GETRANGE', key, '0', '99')
  local owned = sub(arg, 1, 48)
  if type(r) == 'string' and sub(r, 1, 52) == 'L1H0' .. owned and sub(r, 85, 100) > NOW_TEXT then
    local base, last = sub(arg, 33, 48), sub(arg, 49, 64)
    call('SETRANGE', key, '2', 'F0' .. owned .. (last < base and base or last))
    if #KEYS == 1 then return 'R' end
    answers[i] = 'R'
  else
    answers[i], left = false, left or {}
    left[key] = true
  end
end
if not left then return table.concat(answers, '\n') end
