-- KEYS: one record each. ARGV: one lease each: attempt(32) base(16) ttl_ms(8).
-- Answer: one letter each in one string: R renewed, L lost.
local RETENTION = 3600000000
local answers = {}
-- What is the same for neighbours in a batch is written once.
local ttl_seen, ends, ends_text, lives_at_least
for i, key in ipairs(KEYS) do
  local arg = ARGV[i]
  local r = redis.pcall('GETRANGE', key, '0', '131')
  if type(r) == 'table' and not string.find(r.err, 'WRONGTYPE') then error(r) end
  local state = type(r) == 'string' and string.sub(r, 1, 2) == 'L1' and string.sub(r, 3, 3)
  if (state == 'H' or state == 'O') and string.sub(r, 5, 52) == string.sub(arg, 1, 48)
    and string.sub(r, 85, 100) > NOW_TEXT then
    local ttl = string.sub(arg, 49, 56)
    if ttl ~= ttl_seen then
      ttl_seen, ends = ttl, NOW + ttl * 1000
      ends_text = string.format('%016.0f', ends)
      lives_at_least = string.format('%016.0f', ends + RETENTION)
    end
    if state == 'O' then redis.call('SETRANGE', key, '2', 'H') end
    if ends_text > string.sub(r, 85, 100) then redis.call('SETRANGE', key, '84', ends_text) end
    if string.sub(r, 117, 132) < lives_at_least then
      redis.call('SETRANGE', key, '116', string.format('%016.0f', ends + 2 * RETENTION))
      redis.call('PEXPIRE', key, string.format('%.0f', (ends + 2 * RETENTION - NOW) / 1000))
    end
    answers[i] = 'R'
  else
    answers[i] = 'L'
  end
end
return table.concat(answers)
