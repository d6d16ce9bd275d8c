-- KEYS: one record each. ARGV: the leases, attempt(32) base(16) each, then ttl_ms(8), once for all
-- leases or once for each.
-- Answer: one letter for each lease in one string, R renewed, W renewed and others wait, L lost, S use the
-- shared scripts; or one R for all.
local SPARE = RETAIN * 125 -- us, as in record.lua
-- How many records one command reads: with more, each record takes longer.
local STEP = 64
-- Each new string and each call takes time.
local sub, byte, call, form = string.sub, string.byte, redis.call, string.format
local leases, count, answers = ARGV[1], #KEYS, nil
-- Neighbours in a batch share a string that is equal.
local ttl_seen, ends, ends_text, least
for first = 1, count, STEP do
  local last = math.min(first + STEP - 1, count)
  local records = call('MGET', unpack(KEYS, first, last))
  for i = first, last do
    local key, r, renewed = KEYS[i], records[i - first + 1], nil
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
        -- The flags: 1 writers wait, 2 tombstones, 4 readers wait. The code of 0 is 48.
        local flags = byte(r, 36)
        renewed = (flags % 2 == 1 or flags > 51) and 'W' or 'R'
        if state == 'O' then call('SETRANGE', key, '34', 'H') end
        if ends_text > was then call('SETRANGE', key, '100', ends_text) end
        if start < least then
          call('SETRANGE', key, '2', digits(ends + SPARE))
          call('PEXPIRE', key, form('%.0f', (ends - NOW_TEXT) / 1000 + RETAIN))
        end
      end
    end
    if renewed ~= 'R' then
      answers = answers or {}
      answers[i] = renewed or r and sub(r, 1, 2) == 'L2' and 'S' or 'L'
    end
  end
end
if not answers then return 'R' end
for i = 1, count do answers[i] = answers[i] or 'R' end
return table.concat(answers)
