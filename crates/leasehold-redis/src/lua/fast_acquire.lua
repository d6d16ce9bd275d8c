-- The short way of the uncontended ask, which is nearly every ask: the lock is free, nobody waits,
-- nothing was given up. What is left over goes the long way, whose functions are made only then, and
-- so does what comes after it under the same key. To make text of numbers is what costs: it is done
-- once for neighbours in a batch, or not at all.
local sub, form, call, answers, left = string.sub, string.format, redis.call, {}, nil
local ttl_seen, at, ends, lives_at_least
for i = 1, #KEYS do
  local key, arg = KEYS[i], ARGV[i]
  local r = not (left and left[key]) and redis.pcall('GET', key)
  answers[i] = false
  if sub(arg, 34, 41) ~= ttl_seen then
    ttl_seen = sub(arg, 34, 41)
    at = NOW + ttl_seen * 1000
    ends, lives_at_least = form('%016.0f', at), at + 3600000000
  end
  local tokens, top = sub(arg, 42, 49), nil
  if type(r) == 'string' and sub(r, 1, 4) == 'L1F0' then
    local base, lives = sub(r, 53, 68), sub(r, 117, 132)
    if base < NOW_TEXT then base = NOW_TEXT else base = form('%016.0f', base + 1) end
    if tokens == '00000001' then top = base else top = form('%016.0f', base + (tokens - 1)) end
    if lives + 0 >= lives_at_least and top <= '9007199254740991' then
      call('SETRANGE', key, '2', 'H0' .. sub(arg, 1, 32) .. base .. top .. sub(r, 69, 84) .. ends
        .. NOW_TEXT .. lives .. sub(arg, 50))
      answers[i] = 'G' .. base .. top
    end
  elseif r == false and not (left and left[key]) and call('EXISTS', key .. ':q', key .. ':t') == 0 then
    if tokens == '00000001' then top = NOW_TEXT else top = form('%016.0f', NOW + (tokens - 1)) end
    call('SET', key, 'L1H0' .. sub(arg, 1, 32) .. NOW_TEXT .. top .. '0000000000000000' .. ends
      .. NOW_TEXT .. form('%016.0f', at + 7200000000) .. sub(arg, 50),
      'PX', ttl_seen + 7200000)
    answers[i] = 'G' .. NOW_TEXT .. top
  end
  if not answers[i] then
    left = left or {}
    left[key] = true
  elseif #KEYS == 1 then
    return answers[1]
  end
end
if not left then return table.concat(answers, '\n') end
