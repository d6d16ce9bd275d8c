local NOW = NOW_TEXT + 0
local RETENTION = 3600000000
local OFFER = 2000
local TOMBSTONE = 60000
local NEVER = '0000000000000000'
local TOP = 9007199254740991
local function read(key)
  local r = redis.pcall('GET', key)
  if not r then return nil end
  if type(r) == 'table' then
    if not string.find(r.err, 'WRONGTYPE') then error(r) end
    return false, 'F'
  end
  if #r < 136 or string.sub(r, 1, 2) ~= 'L1' then
    if string.find(r, '^L[2-9]') then return false, 'V' end
    return false, 'F'
  end
  return {
    lives = string.sub(r, 3, 18),
    lost = string.sub(r, 19, 34),
    state = string.sub(r, 35, 35),
    waits = string.sub(r, 36, 36) % 2 == 1,
    tombs = string.sub(r, 36, 36) + 0 >= 2,
    owner = string.sub(r, 37, 68),
    base = string.sub(r, 69, 84),
    top = string.sub(r, 85, 100),
    ends = string.sub(r, 101, 116),
    since = string.sub(r, 117, 132),
    tail = string.sub(r, 133, 136 + string.sub(r, 133, 136)),
  }
end
local function blank()
  return {
    state = 'F', waits = false, tombs = false, owner = string.rep('0', 32), base = NEVER,
    top = NEVER, lost = NEVER, ends = NEVER, since = NEVER, lives = NEVER, tail = '0000',
  }
end
local function write(key, rec)
  local last = math.max(tonumber(rec.ends), NOW)
  local renewed = tonumber(rec.lives) < last
  if renewed then rec.lives = digits(last + RETENTION) end
  local flags = (rec.waits and 1 or 0) + (rec.tombs and 2 or 0)
  local r = 'L1' .. rec.lives .. rec.lost .. rec.state .. flags .. rec.owner .. rec.base .. rec.top
    .. rec.ends .. rec.since .. rec.tail
  if renewed then
    redis.call('SET', key, r, 'PX', string.format('%.0f', (last + 2 * RETENTION - NOW) / 1000))
  else
    redis.call('SETRANGE', key, '0', r)
  end
end
local function alive(rec) return rec.state ~= 'F' and rec.ends > NOW_TEXT end
local function remaining(rec) return math.ceil(math.max(0, tonumber(rec.ends) - NOW) / 1000) end
local function entry(member)
  return {
    member = member,
    attempt = string.sub(member, 1, 32),
    ttl = tonumber(string.sub(member, 33, 40)),
    tokens = tonumber(string.sub(member, 41, 48)),
    tail = string.sub(member, 49),
  }
end
local function beside(key, at) return redis.call('EXISTS', key, key .. at) == 2 end
local function head(key)
  local first = redis.call('ZRANGE', key .. ':q', '0', '0')[1]
  if not first then beside(key, ':q') end
  return first
end
local function channel(attempt) return 'leasehold:c:' .. string.sub(attempt, 1, 16) end
local function publish(attempt, message)
  return redis.call('PUBLISH', channel(attempt), message) > 0
end
local function listens(attempt)
  local answer = redis.pcall('PUBSUB', 'NUMSUB', channel(attempt))
  return answer.err ~= nil or answer[2] ~= 0
end
local function expire(rec)
  if rec.state == 'H' or rec.state == 'O' then rec.lost = rec.base end
  rec.state = 'F'
end
local function leave_line(key, rec, member)
  redis.call('ZREM', key .. ':q', member)
  rec.waits = redis.pcall('EXISTS', key .. ':q') == 1
end
local function grant(key, rec, who, state, ms)
  local base = math.max(tonumber(rec.top) + 1, NOW)
  local top = base + (who.tokens - 1)
  if top > TOP then return false end
  rec.state, rec.owner, rec.tail = state, who.attempt, who.tail
  rec.base, rec.top = digits(base), digits(top)
  rec.ends, rec.since = digits(NOW + ms * 1000), NOW_TEXT
  if rec.waits then leave_line(key, rec, who.member) end
  return true
end
local function tell_next(key, rec, caller)
  while rec.waits and rec.state ~= 'F' do
    local next = head(key)
    if not next then
      rec.waits = false
      return write(key, rec)
    end
    local attempt = string.sub(next, 1, 32)
    if attempt == caller then return end
    local ms = string.format('%010.0f', math.min(remaining(rec), 9999999999))
    if publish(attempt, 'N' .. attempt .. ms .. key) then return end
    redis.call('ZREM', key .. ':q', next)
  end
end
local function hand_on(key, rec, caller)
  local handed = false
  while rec.waits and not handed do
    local next = head(key)
    if not next then
      rec.waits = false
      break
    end
    local who = entry(next)
    if who.attempt == caller then
      if not grant(key, rec, who, 'H', who.ttl) then break end
      handed = true
      write(key, rec)
    elseif listens(who.attempt) then
      local ms = math.min(OFFER, who.ttl)
      if not grant(key, rec, who, 'O', ms) then break end
      handed = true
      write(key, rec)
      publish(who.attempt, 'G' .. who.attempt .. rec.base .. rec.top .. NOW_TEXT
        .. string.format('%08d', ms) .. (rec.waits and 'w' or '-') .. key)
    else
      leave_line(key, rec, next)
      publish(who.attempt, 'N' .. who.attempt .. '0000000000' .. key)
    end
  end
  if not handed then write(key, rec) end
  tell_next(key, rec, caller)
end
local function guarded(step, key, arg)
  local ok, answer = pcall(step, key, arg)
  if ok then return answer end
  local why = type(answer) == 'table' and answer.err or tostring(answer)
  for _, all in ipairs({ "can't run this command", 'NOPERM', 'OOM', 'READONLY', 'MISCONF',
    'non local key' }) do
    if string.find(why, all, 1, true) then error(answer) end
  end
  return 'XF'
end
