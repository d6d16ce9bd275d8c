-- How phases begin and end: which waiters enter, and which clients are notified.

-- Returns how many wait for the end of a lease of this mode.
local function waiters_for(mode) return mode == 'R' and count.W or count.W + count.R end

local function take_notice()
  notices = notices - 1
  return notices >= 0
end

local function take_offer()
  if offers == 0 then return false end
  offers = offers - 1
  return true
end

local function send(attempt, text) messages[#messages + 1] = { channel(attempt), text } end

-- Returns the first and the last token of a new phase; nil if no token is left. A read phase has one token,
-- and reserves the one after it: see `lose`.
local function next_tokens(mode, wanted)
  local base = math.max(rec.top + 1, NOW)
  local top = base
  if mode == 'W' then top = base + (math.max(math.min(wanted, NOW + LEAD - base), 1) - 1) end
  if top > TOP then return nil end
  return base, mode == 'R' and math.min(base + 1, TOP) or top
end

-- False if the phase has begun in this call: no member can have expired.
local may_reap = true

-- Begins a phase without members.
local function begin(mode, base, top)
  -- An earlier record may have been removed: how its leases ended is unknown.
  if rec.top == NEVER then rec.lost = digits(base - 1) end
  if rec.state == 'R' or mode == 'R' then
    call('UNLINK', MEMBERS, TAILS)
    forget_members()
    may_reap = false
  end
  rec.state, turn, latest = mode == 'R' and 'R' or 'H', OTHER[mode], 0
  rec.base, rec.top, rec.since = digits(base), digits(top), NOW_TEXT
end

-- Ends the phase. Its members, if there are any, have lost their leases.
local function end_phase()
  if rec.state == 'R' then
    if call('EXISTS', MEMBERS) == 1 then lose() end
    call('UNLINK', MEMBERS, TAILS)
    rec.state = 'F'
  else
    expire(rec)
  end
  latest = 0
end

-- Removes members that expired long ago, so that a read phase that lasts for days does not collect them.
local function reap()
  for _ = 1, may_reap and REAPED or 0 do
    local first = call('ZRANGE', MEMBERS, '0', '0', 'WITHSCORES')
    if not first[1] or first[2] + TOMBSTONE * 1000 > NOW then return end
    lose()
    drop_reader(first[1])
    -- It may have been the last one.
    forget_members()
  end
end

-- Adds a member, which has left the queue.
local function join(attempt, tail, ms, confirmed)
  rec.owner, rec.tail = attempt, tail
  local state, ends = confirmed and 'H' or 'O', NOW + ms * 1000
  if rec.state == 'R' then
    reap()
    put_tail(attempt, state, tail)
    call('ZADD', MEMBERS, digits(ends), attempt)
    saw_member = true
  else
    rec.state, rec.ends = state, digits(ends)
  end
  latest = math.max(latest, ends)
end

-- Adds the attempt that makes this request, with its whole lease.
local function join_caller(ask)
  if not dequeue('W', ask.member) then dequeue('R', ask.member) end
  join(ask.attempt, ask.tail, ask.ttl, true)
end

-- Returns the mode that enters next; nil if no attempt waits.
local function next_mode()
  if count[turn] > 0 then return turn end
  return count[OTHER[turn]] > 0 and OTHER[turn] or nil
end

-- Offers a lease to the first waiter of a mode. Returns its entry and how long it holds (nil: it cannot be
-- reached and has left the queue), and whether it is the caller; or nil if this call may do no more.
local function offer(mode, base, top, caller)
  local member = first_of(mode)
  if not member then return nil end
  local who = entry(member)
  if who.attempt == caller then return who, who.ttl, true end
  if not take_offer() then return nil end
  if not listens(who.attempt) then
    dequeue(mode, member)
    -- It may listen at another node of a cluster, and asks again then.
    send(who.attempt, 'N' .. who.attempt .. '0000000000' .. KEY)
    return who, nil
  end
  local ms = math.min(OFFER, who.ttl)
  local wanted = waiters_for(mode) > (mode == 'W' and 1 or 0)
  send(who.attempt, 'G' .. who.attempt .. digits(base) .. digits(top) .. NOW_TEXT
    .. string.format('%08d', ms) .. (wanted and 'w' or '-') .. KEY)
  return who, ms, false
end

local function enter(mode, who, ms, is_caller)
  dequeue(mode, who.member)
  join(who.attempt, who.tail, ms, is_caller)
end

-- Lets the first queued readers into the read phase, as many as one call may.
local function admit(caller)
  while count.R > 0 do
    local who, ms, is_caller = offer('R', tonumber(rec.base), tonumber(rec.base), caller)
    if not who then return end
    if ms then enter('R', who, ms, is_caller) end
  end
end

-- Sends the first waiter of a mode the time until the phase ends. Removes waiters that cannot be reached.
-- The caller gets the time in its answer.
local function tell_first(mode, caller)
  while rec.state ~= 'F' do
    local member = first_of(mode)
    local attempt = member and sub(member, 1, 32)
    if not member or attempt == caller or not take_notice() then return end
    if listens(attempt) then
      local ms = string.format('%010.0f', math.min(time_left(), 9999999999))
      return send(attempt, 'N' .. attempt .. ms .. KEY)
    end
    dequeue(mode, member)
  end
end

-- Does so for each mode that may enter next.
local function tell_firsts(caller)
  tell_first('W', caller)
  if rec.state ~= 'R' then tell_first('R', caller) end
end

-- Notifies the members that another attempt waits: those with the longest leases, since the others renew soon.
local function tell_members()
  if rec.state ~= 'R' then
    if phase_alive() and take_notice() then send(rec.owner, 'W' .. rec.owner .. KEY) end
    return
  end
  if notices <= 0 then return end
  local last = call('ZRANGE', MEMBERS, '0', notices - 1, 'REV', 'WITHSCORES')
  for i = 1, #last, 2 do
    if tonumber(last[i + 1]) <= NOW or not take_notice() then return end
    send(last[i], 'W' .. last[i] .. KEY)
  end
end

-- Grants the free lock to the waiters whose turn it is. `caller` needs no push. Sets rec.more if the lock
-- stays free because this call may do no more.
local function pass_on(caller)
  rec.more = false
  while true do
    local mode = next_mode()
    if not mode then break end
    local first = first_of(mode)
    local base, top = next_tokens(mode, first and entry(first).tokens or 1)
    if not base then return end
    local who, ms, is_caller = offer(mode, base, mode == 'R' and base or top, caller)
    if not who then
      rec.more = true
      return
    end
    if ms then
      begin(mode, base, top)
      enter(mode, who, ms, is_caller)
      if mode == 'R' then admit(caller) end
      break
    end
  end
  tell_firsts(caller)
end

-- Removes the first waiters that have not asked for long. Lets queued readers in if no writer waits any more.
local function lapse_and_admit(caller)
  for _, mode in ipairs({ 'W', 'R' }) do
    while true do
      local member = first_of(mode)
      if not member or asked_at(sub(member, 1, 32)) + WAITER_LEASE >= NOW or not take_offer() then break end
      dequeue(mode, member)
    end
  end
  if rec.state == 'R' and phase_alive() and count.W == 0 then admit(caller) end
end

-- Ends every call: what is due, whatever was asked for.
local function finish()
  lapse_and_admit(nil)
  if not phase_alive() and count.W + count.R > 0 then
    end_phase()
    pass_on(nil)
  end
end
