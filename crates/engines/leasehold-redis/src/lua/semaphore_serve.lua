-- Which waiters get a permit: the first ones, as far as they fit.

-- Parses an entry of the queue: attempt(32) slots(5) ttl_ms(8) tokens(8) length(4) tail; its score is the ticket.
local function waiter(member)
  return {
    member = member,
    attempt = sub(member, 1, 32),
    slots = tonumber(sub(member, 33, 37)),
    ttl = tonumber(sub(member, 38, 45)),
    tokens = tonumber(sub(member, 46, 53)),
    tail = sub(member, 54),
  }
end

local function first_waiter()
  return waiting > 0 and waiter(call('ZRANGE', QUEUE, '0', '0')[1]) or nil
end

-- Adds a waiter at the end.
local function enqueue(ask)
  local ticket = NOW
  if waiting > 0 then
    ticket = math.max(NOW, call('ZRANGE', QUEUE, '-1', '-1', 'WITHSCORES')[2] + 1)
  end
  add(QUEUE, waiting, { form('%.0f', ticket), ask.member })
  add(SEEN, waiting, { NOW_TEXT, ask.attempt })
  waiting, ask.is_last = waiting + 1, true
end

-- Removes a waiter, if it waits.
local function dequeue(member)
  if waiting == 0 or call('ZREM', QUEUE, member) == 0 then return end
  call('ZREM', SEEN, sub(member, 1, 32))
  waiting, moved = waiting - 1, true
end

-- Returns true if a waiter has not asked for long.
local function has_lapsed(who)
  local seen = call('ZSCORE', SEEN, who.attempt)
  if seen then return seen + WAITER_LEASE < NOW end
  add(SEEN, 0, { NOW_TEXT, who.attempt })
  return false
end

-- Returns the lowest free slots for a permit, ascending; nil if it does not fit. Permits in slots above a lowered
-- limit count too.
local function fitting(count)
  if held() + count > sem.limit then return nil end
  local slots = {}
  if sem.free > returns then
    for i, slot in ipairs(call('ZRANGE', FREE, '0', count - 1)) do slots[i] = tonumber(slot) end
  end
  if returns > 0 then
    for slot in pairs(returned) do slots[#slots + 1] = slot end
    table.sort(slots)
    while #slots > count do slots[#slots] = nil end
  end
  local unused = sem.used
  while #slots < count do
    slots[#slots + 1] = unused
    unused = unused + 1
  end
  return slots[count] < sem.limit and slots or nil
end

-- Returns the first and the last token of a permit; nil if no token is left. They are above those that any of its
-- slots has had.
local function next_tokens(slots, wanted)
  local base = NOW
  for _, slot in ipairs(slots) do
    if slot < sem.used then base = math.max(base, mark('t', slot) + 1) end
  end
  local top = base + (math.max(math.min(wanted, NOW + LEAD - base), 1) - 1)
  if top > TOP then return nil end
  return base, top
end

-- Grants these free slots. Returns the permit.
local function grant(who, slots, base, top, ms, confirmed)
  local before, new, stored = sem.used, {}, {}
  changed, first_end = true, nil
  for _, slot in ipairs(slots) do
    if slot >= before then
      new[#new + 1] = slot
    elseif returned[slot] then
      returned[slot], returns = nil, returns - 1
    else
      stored[#stored + 1] = slot
    end
  end
  if #stored > 0 then call('ZREM', FREE, unpack(stored)) end
  -- An earlier record may have been removed: how its permits ended is unknown.
  if #new > 0 then set_marks('l', new, base - 1) end
  set_marks('t', slots, top)
  sem.free, sem.used = sem.free - (#slots - #new), before + #new
  local ends, list = NOW + ms * 1000, table.concat(slots, ',')
  add(ENDS, sem.permits, { digits(ends), who.attempt })
  add(PERMITS, sem.permits, { '0', who.attempt .. (confirmed and 'H' or 'O') .. digits(base) .. digits(top)
    .. NOW_TEXT .. list .. ';' .. who.tail })
  sem.permits, latest = sem.permits + 1, math.max(latest, ends)
  return { base = base, top = top, list = list }
end

-- Takes the slots of expired permits back.
local function reap()
  more = false
  for _ = 1, CAP do
    local ends, attempt = next_end()
    if not ends or ends > NOW then return end
    local permit = permit_of(attempt)
    if permit then take_back(permit, true) end
  end
  local ends = next_end()
  more = ends ~= nil and ends <= NOW
end

-- Sends a waiter the time when the next permit may expire.
local function send_next(who)
  send(who.attempt, 'N' .. who.attempt .. form('%010.0f', math.min(time_left(), 9999999999)) .. KEY)
end

-- Serves the first waiter. Returns its permit if it is the caller, and false if no other waiter can enter now.
local function serve_first(caller)
  local who = first_waiter()
  if not who then return nil, false end
  local is_caller, slots = who.attempt == caller, fitting(who.slots)
  if not is_caller and has_lapsed(who) then
    dequeue(who.member)
  elseif who.slots > sem.limit then
    dequeue(who.member)
    send(who.attempt, 'R' .. who.attempt .. form('%05d', sem.limit) .. KEY)
  elseif not slots and (is_caller or not moved and held() >= sem.limit) then
    -- It knows already when the next permit may expire, or learns it from its answer. If slots are free, a waiter
    -- behind it may fit when it cannot be reached.
    return nil, false
  elseif not is_caller and not listens(who.attempt) then
    dequeue(who.member)
    -- It may listen at another node of a cluster, and asks again then.
    send(who.attempt, 'N' .. who.attempt .. '0000000000' .. KEY)
  elseif not slots then
    send_next(who)
    return nil, false
  else
    local base, top = next_tokens(slots, who.tokens)
    if not base then return nil, false end
    dequeue(who.member)
    local ms = is_caller and who.ttl or math.min(OFFER, who.ttl)
    local permit = grant(who, slots, base, top, ms, is_caller)
    if is_caller then return permit, true end
    send(who.attempt, 'P' .. who.attempt .. digits(base) .. digits(top) .. NOW_TEXT .. form('%08d', ms)
      .. (waiting > 0 and 'w' or '-') .. permit.list .. ' ' .. KEY)
  end
  return nil, true
end

-- Returns true if the first waiter can be served now.
local function another_could_serve()
  local who = first_waiter()
  if not who then return false end
  if who.slots > sem.limit or has_lapsed(who) then return true end
  local slots = fitting(who.slots)
  return slots and next_tokens(slots, 1) ~= nil
end

-- Grants permits to the first waiters while they fit. The caller needs no push, and its permit is returned. The
-- first waiter that does not fit is never passed: when it becomes the first one, or a permit ends, it learns when
-- the next permit may expire. A waiter leaves the queue if it has lapsed, cannot be reached while a slot is free, or
-- needs more slots than the limit.
local function serve(caller)
  local own
  reap()
  for _ = 1, CAP do
    local permit, goes_on = serve_first(caller)
    own = own or permit
    if not goes_on then
      moved = false
      return own
    end
  end
  local who = first_waiter()
  if who and who.attempt ~= caller and not fitting(who.slots) then send_next(who) end
  moved, more = false, more or another_could_serve()
  return own
end
