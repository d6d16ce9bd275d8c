-- KEYS: one record each. ARGV: the usual form, which is the content that each record has if it has not
-- changed since the grant: `H0` attempt(32) base(16) last(16), one after the other; no key occurs
-- twice. Or an empty string, followed by each release in the form that release.lua describes.
-- Answer: one line for each release, as in release.lua, or one R for all.
--
-- The fast path of an uncontended release; see fast_acquire.lua.
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
