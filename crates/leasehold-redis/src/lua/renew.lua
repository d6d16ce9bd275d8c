-- KEYS: one record each. ARGV: the leases, attempt(32) base(16) each, then ttl_ms(8), once for all of
-- them or once for each.
-- Answer: one letter each in one string, R renewed, L lost; or one R for all.
local RETENTION = 3600000000
local sub, byte, call, form = string.sub, string.byte, redis.call, string.format
local HELD, OFFERED = byte('HO', 1, 2)
local answers, leases, lost = {}, ARGV[1], false
-- Records are read so many at a time: more of them at once take longer each.
local STEP = 64
local records
-- What is the same for neighbours in a batch is written once.
local ttl_seen, ends, ends_text, least
for i = 1, #KEYS do
  local at = (i - 1) % STEP
  if at == 0 then records = call('MGET', unpack(KEYS, i, math.min(i + STEP - 1, #KEYS))) end
  local key, r, answer = KEYS[i], records[at + 1], 'L'
  if r and sub(r, 37, 84) == sub(leases, 48 * i - 47, 48 * i) then
    local was, state, start = sub(r, 101, 116), byte(r, 35), sub(r, 1, 18)
    if was > NOW_TEXT and (state == HELD or state == OFFERED) and sub(start, 1, 2) == 'L1' then
      local ttl = ARGV[i + 1] or ARGV[2]
      if ttl ~= ttl_seen then
        ttl_seen, ends = ttl, NOW_TEXT + ttl * 1000
        ends_text = digits(ends)
        least = 'L1' .. ends_text
      end
      if state == OFFERED then call('SETRANGE', key, '34', 'H') end
      if ends_text > was then call('SETRANGE', key, '100', ends_text) end
      if start < least then
        call('SETRANGE', key, '2', digits(ends + RETENTION))
        call('PEXPIRE', key, form('%.0f', (ends + 2 * RETENTION - NOW_TEXT) / 1000))
      end
      answer = 'R'
    end
  end
  if answer == 'L' then lost = true end
  answers[i] = answer
end
return lost and table.concat(answers) or 'R'
