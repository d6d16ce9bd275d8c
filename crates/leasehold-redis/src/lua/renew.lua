-- KEYS: one record each. ARGV: one lease each: attempt(32) base(16) ttl_ms(8).
-- Answer: one letter each in one string: R renewed, L lost.
local RETENTION = 3600000000
local sub, byte, call, form = string.sub, string.byte, redis.call, string.format
local L, VERSION, HELD, OFFERED = byte('L1HO', 1, 4)
local answers = {}
-- What is the same for neighbours in a batch is written once.
local ttl_seen, ends, ends_text, lives_at_least
for i, key in ipairs(KEYS) do
  local arg, answer = ARGV[i], 'L'
  local r = redis.pcall('GETRANGE', key, '0', '131')
  if type(r) == 'table' then
    if not string.find(r.err, 'WRONGTYPE') then error(r) end
    r = ''
  end
  local first, version, state = byte(r, 1, 3)
  local was = sub(r, 85, 100)
  if first == L and version == VERSION and (state == HELD or state == OFFERED)
    and sub(r, 5, 52) == sub(arg, 1, 48) and was > NOW_TEXT then
    local ttl = sub(arg, 49, 56)
    if ttl ~= ttl_seen then
      ttl_seen, ends = ttl, NOW + ttl * 1000
      ends_text, lives_at_least = form('%016.0f', ends), form('%016.0f', ends + RETENTION)
    end
    if state == OFFERED then call('SETRANGE', key, '2', 'H') end
    if ends_text > was then call('SETRANGE', key, '84', ends_text) end
    if sub(r, 117, 132) < lives_at_least then
      call('SETRANGE', key, '116', form('%016.0f', ends + 2 * RETENTION))
      call('PEXPIRE', key, form('%.0f', (ends + 2 * RETENTION - NOW) / 1000))
    end
    answer = 'R'
  end
  answers[i] = answer
end
return table.concat(answers)
