local function verdict_on_the_past(rec, base)
  if not base then return 'G' end
  if not rec or rec.top < base then return 'L' end
  if rec.lost < base then return 'R' end
  if rec.lost == base then return 'L' end
  return 'U'
end
local function bury(key, rec, attempt)
  local tombs = key .. ':t'
  if rec and rec.tombs then beside(key, ':t') end
  redis.call('ZREMRANGEBYSCORE', tombs, '-inf', NOW_TEXT)
  redis.call('ZADD', tombs, digits(NOW + TOMBSTONE * 1000), attempt)
  redis.call('PEXPIRE', tombs, string.format('%d', TOMBSTONE))
end
local function release(key, arg)
  local attempt = string.sub(arg, 1, 32)
  local flags = tonumber(string.sub(arg, 65, 65))
  local base = flags % 2 == 1 and string.sub(arg, 33, 48) or nil
  local last = math.floor(flags / 2) % 2 == 1 and string.sub(arg, 49, 64) or nil
  local keep, member = tonumber(string.sub(arg, 66, 73)), string.sub(arg, 74)
  local rec, why = read(key)
  if rec == false then return base and 'L' or 'G' end
  local dirty, was_first = false, false
  if member ~= '' and (not rec or rec.waits) then
    was_first = head(key) == member
    if redis.call('ZREM', key .. ':q', member) == 1 and rec then
      rec.waits, dirty = redis.pcall('EXISTS', key .. ':q') == 1, true
    end
  end
  if flags >= 4 then
    bury(key, rec, attempt)
    if rec and not rec.tombs then rec.tombs, dirty = true, true end
  end
  if not rec then return verdict_on_the_past(rec, base) end
  if rec.state == 'F' or rec.state == 'K' or rec.owner ~= attempt then
    if dirty then write(key, rec) end
    if was_first then tell_next(key, rec, nil) end
    return verdict_on_the_past(rec, base)
  end
  local live = alive(rec)
  local same = not base or base == rec.base
  if not live then
    rec.lost = rec.base
  elseif same and base and last then
    rec.top = last > rec.base and last or rec.base
  end
  if keep > 0 and live and same then
    rec.state, rec.ends = 'K', digits(NOW + keep * 1000)
    write(key, rec)
    tell_next(key, rec, nil)
  else
    rec.state = 'F'
    hand_on(key, rec, nil)
  end
  return live and same and 'R' or 'L'
end
