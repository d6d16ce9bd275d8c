-- An end: attempt(32) base(16) last(16) flags(1: bit 0 base given, bit 1 last given, bit 2 suspect)
--   keep_ms(8) member of the queue, or nothing
-- Answer: R released | L lost | G gone | U unknown | X why
local function verdict_on_the_past(rec, base)
  if not base then return 'G' end
  if not rec or rec.top < base then return 'L' end
  if rec.lost < base then return 'R' end
  if rec.lost == base then return 'L' end
  return 'U'
end

local function release(key, arg)
  local attempt = string.sub(arg, 1, 32)
  local flags = tonumber(string.sub(arg, 65, 65))
  local base = flags % 2 == 1 and string.sub(arg, 33, 48) or nil
  local last = math.floor(flags / 2) % 2 == 1 and string.sub(arg, 49, 64) or nil
  local keep, member = tonumber(string.sub(arg, 66, 73)), string.sub(arg, 74)
  local rec, why = read(key)
  if rec == false then
    if base then return 'L' end
    return 'G'
  end
  local now = time()
  local dirty = false
  if rec and rec.waits and member ~= '' and redis.call('ZREM', key .. ':q', member) == 1 then
    rec.waits = redis.call('EXISTS', key .. ':q') == 1
    dirty = true
  end
  if flags >= 4 then
    redis.call('SADD', key .. ':t', attempt)
    redis.call('PEXPIRE', key .. ':t', TOMBSTONE)
    if rec and not rec.tombs then rec.tombs, dirty = true, true end
  end
  if not rec or rec.state == 'F' or rec.state == 'K' or rec.owner ~= attempt then
    if dirty then write(key, rec, now) end
    return verdict_on_the_past(rec, base)
  end
  local live = alive(rec, now)
  local same = not base or base == rec.base
  if not live then
    rec.lost = rec.base
  elseif same and base and last then
    rec.top = last > rec.base and last or rec.base
  end
  if keep > 0 and live and same then
    rec.state, rec.ends = 'K', digits(now + keep * 1000)
    write(key, rec, now)
    local waited = rec.waits
    tell_next(key, rec, nil, now)
    if waited ~= rec.waits then write(key, rec, now) end
  else
    rec.state = 'F'
    hand_on(key, rec, nil, now)
  end
  return live and same and 'R' or 'L'
end
