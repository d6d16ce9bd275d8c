-- The uncontended ask, which is nearly every ask: the lock is free, nobody waits, nothing was given
-- up. It stands before everything else, since even making the other functions costs time. nil when
-- the long way is needed.
local sub, form, call = string.sub, string.format, redis.call

local function fast_acquire(key, arg)
  local r = redis.pcall('GET', key)
  if type(r) ~= 'string' or sub(r, 1, 4) ~= 'L1F0' then return nil end
  local ends = NOW + sub(arg, 34, 41) * 1000
  local lives = sub(r, 117, 132)
  if lives + 0 < ends + 3600000000 then return nil end
  local base, top, tokens = sub(r, 53, 68), nil, sub(arg, 42, 49)
  if base < NOW_TEXT then base = NOW_TEXT else base = form('%016.0f', base + 1) end
  if tokens == '00000001' then top = base else top = form('%016.0f', base + (tokens - 1)) end
  if top > '9007199254740991' then return nil end
  local tail = sub(arg, 50)
  call('SETRANGE', key, '2', 'H0' .. sub(arg, 1, 32) .. base .. top .. sub(r, 69, 84)
    .. form('%016.0f', ends) .. NOW_TEXT .. lives .. sub('000' .. #tail, -4) .. tail)
  return 'G' .. base .. top
end

local answers, first = {}, nil
for i = 1, #KEYS do
  local answer = fast_acquire(KEYS[i], ARGV[i])
  if not answer then
    first = i
    break
  end
  answers[i] = answer
end
if not first then return answers end
