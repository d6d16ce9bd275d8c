local RETENTION = 3600000000
local STEP = 64
local sub, call, form = string.sub, redis.call, string.format
local leases, count, answers = ARGV[1], #KEYS, nil
local ttl_seen, ends, ends_text, least
for first = 1, count, STEP do
  local last = math.min(first + STEP - 1, count)
  local records = call('MGET', unpack(KEYS, first, last))
  for i = first, last do
    local key, r, renewed = KEYS[i], records[i - first + 1], false
    if r and sub(r, 37, 84) == sub(leases, 48 * i - 47, 48 * i) then
      local was, state, start = sub(r, 101, 116), sub(r, 35, 35), sub(r, 1, 18)
      renewed = was > NOW_TEXT and (state == 'H' or state == 'O') and start > 'L1' and start < 'L2'
      if renewed then
        local ttl = ARGV[i + 1] or ARGV[2]
        if ttl ~= ttl_seen then
          ttl_seen, ends = ttl, NOW_TEXT + ttl * 1000
          ends_text = digits(ends)
          least = 'L1' .. ends_text
        end
        if state == 'O' then call('SETRANGE', key, '34', 'H') end
        if ends_text > was then call('SETRANGE', key, '100', ends_text) end
        if start < least then
          call('SETRANGE', key, '2', digits(ends + RETENTION))
          call('PEXPIRE', key, form('%.0f', (ends + 2 * RETENTION - NOW_TEXT) / 1000))
        end
      end
    end
    if not renewed then
      answers = answers or {}
      answers[i] = 'L'
    end
  end
end
if not answers then return 'R' end
for i = 1, count do answers[i] = answers[i] or 'R' end
return table.concat(answers)
