-- The operations on a semaphore.

-- One acquire: flags(1: bit 0 wait) limit(5), then the entry of the queue.
local function parse_ask(text)
  local ask = waiter(sub(text, 7))
  ask.wait, ask.limit = sub(text, 1, 1) == '1', tonumber(sub(text, 2, 6))
  return ask
end

local function say_granted(permit)
  return 'G' .. digits(permit.base) .. digits(permit.top) .. (waiting > 0 and 'w' or '-') .. permit.list
end

-- Grants a permit that no waiter precedes. Returns the answer; nil if it does not fit.
local function grant_now(ask)
  local slots = fitting(ask.slots)
  if not slots then return nil end
  local base, top = next_tokens(slots, ask.tokens)
  if not base then return 'XT' end
  dequeue(ask.member)
  return say_granted(grant(ask, slots, base, top, ask.ttl, true))
end

-- Grants an offer again that its attempt did not confirm in time: the same slots with new tokens. Returns nil if
-- it was confirmed, or does not fit under the present limit.
local function grant_again(ask, permit)
  local fits = permit.slots[#permit.slots] < sem.limit and held() <= sem.limit
  if permit.confirmed or not fits then return nil end
  local base, top = next_tokens(permit.slots, ask.tokens)
  if not base then return nil end
  take_back(permit, true)
  return say_granted(grant(ask, permit.slots, base, top, ask.ttl, true))
end

-- Answers an attempt after the queue was served.
local function say_waiting(ask)
  local left = more and waiting > 0 and 0 or time_left()
  local place = ask.is_last and waiting - 1 or waiting > 0 and call('ZRANK', QUEUE, ask.member)
  local granted = (place or waiting) == 0 and grant_now(ask)
  if granted then return granted end
  if not (place and ask.wait) then return 'B' .. form('%.0f', left) end
  local again = left == 0 and 0 or math.min(left + place * OFFER, SLOW_POLL)
  return 'Q' .. NOW_TEXT .. form('%010.0f', again) .. form('%.0f', place)
end

-- Answer: G base(16) top(16) w if others wait, else - (1) slots | Q and B as in acquire.lua | I limit(5) of the
-- semaphore, which the request does not fit | E (ended) | XT (tokens used up)
local function acquire_permit(ask)
  if is_refused(ask.attempt) then return 'E' end
  if sem.limit == 0 then begin(ask.limit) end
  local permit = permit_of(ask.attempt)
  if permit then
    if permit.ends > NOW then
      extend(permit, ask.ttl)
      return say_granted(permit)
    end
    local granted = grant_again(ask, permit)
    if granted then return granted end
    take_back(permit, true)
  end
  local queued = waiting > 0 and call('ZSCORE', QUEUE, ask.member)
  if not queued and ask.limit ~= sem.limit or ask.slots > sem.limit then
    dequeue(ask.member)
    serve(nil)
    return 'I' .. form('%05d', sem.limit)
  end
  if waiting == 0 then
    reap()
    local granted = grant_now(ask)
    if granted then return granted end
    if ask.wait then enqueue(ask) end
    return say_waiting(ask)
  end
  if queued then
    add(SEEN, waiting, { NOW_TEXT, ask.attempt })
  elseif ask.wait then
    enqueue(ask)
  end
  local own = serve(ask.attempt)
  return own and say_granted(own) or say_waiting(ask)
end

-- One renewal for each 56 bytes: attempt(32) base(16) ttl_ms(8). Answer: one letter each, R renewed | L lost.
local function renew_permits(text)
  local answers = {}
  for at = 1, #text, 56 do
    local permit = permit_of(sub(text, at, at + 31))
    local renewed = permit and permit.ends > NOW and permit.base == tonumber(sub(text, at + 32, at + 47))
    if renewed then extend(permit, tonumber(sub(text, at + 48, at + 55))) end
    answers[#answers + 1] = renewed and 'R' or 'L'
  end
  return table.concat(answers)
end

-- In lower case if waiters are left that another call may serve.
local function told_more(answer) return more and waiting > 0 and string.lower(answer) or answer end

-- Takes a permit back that its client releases. Returns the verdict.
local function end_permit(permit, base, last, slot)
  local live = permit.ends > NOW
  local same = not base or base == permit.base and (not slot or slot == permit.slots[1])
  if live and same and base and last then
    set_marks('t', permit.slots, math.min(math.max(base, last), permit.top))
  end
  take_back(permit, not live)
  return live and same and 'R' or 'L'
end

-- One release: attempt(32) base(16) last(16) flags(2: sum of 1 base given, 2 last given, 4 suspect, 8 slot
-- given) slot(5) entry of the queue, or an empty string. Answer: a verdict as in release.lua.
local function release_permit(text)
  local attempt, flags = sub(text, 1, 32), tonumber(sub(text, 65, 66))
  local base = flags % 2 == 1 and tonumber(sub(text, 33, 48)) or nil
  local last = flags % 4 >= 2 and tonumber(sub(text, 49, 64)) or nil
  local slot = flags >= 8 and tonumber(sub(text, 67, 71)) or nil
  local member, verdict = sub(text, 72), nil
  if member ~= '' then dequeue(member) end
  if flags % 8 >= 4 then bury(KEY, nil, attempt) end
  local permit = permit_of(attempt)
  if permit then
    verdict = end_permit(permit, base, last, slot)
  elseif base and not slot then
    verdict = 'U'
  else
    local past = slot and { top = digits(mark('t', slot)), lost = digits(mark('l', slot)) }
    verdict = verdict_on_the_past(past, base and digits(base))
  end
  serve(nil)
  return told_more(verdict)
end

-- A change of the limit, if its version is still this one: version(16) limit(5). Answer: S version(16) | C limit(5)
-- version(16) of the stored one, which has another version.
local function set_limit(text)
  local version, limit = tonumber(sub(text, 1, 16)), tonumber(sub(text, 17, 21))
  local repeated = version + 1 == sem.version and limit == sem.limit
  if version ~= sem.version and not repeated then
    return 'C' .. form('%05d', sem.limit) .. digits(sem.version)
  end
  if not repeated then
    if version == 0 then begin(limit) else sem.limit, sem.version = limit, version + 1 end
  end
  sem.kept = true
  serve(nil)
  return told_more('S') .. digits(sem.version)
end

-- Ends a permit that is held. Answer: E ended
local function end_by_force(permit)
  send(permit.attempt, 'L' .. permit.attempt .. digits(permit.base) .. KEY)
  take_back(permit, true)
  serve(nil)
  return told_more('E')
end

-- Ends the permit of an attempt by force. Answer: E ended | N not held
local function force_one(attempt)
  local permit = permit_of(attempt)
  return permit and permit.ends > NOW and end_by_force(permit) or 'N'
end

-- Ends the permit with this token by force: token(16) slot(5), which is - if any slot will do. Permits in
-- different slots may have equal tokens. Answer: E ended | N not held | M several permits have it
local function force_permit(text)
  local token, slot, found = tonumber(sub(text, 1, 16)), tonumber(sub(text, 17)), nil
  for from = 0, sem.permits - 1, 500 do
    for _, entry in ipairs(call('ZRANGE', PERMITS, from, from + 499)) do
      if token >= tonumber(sub(entry, 34, 49)) and token <= tonumber(sub(entry, 50, 65)) then
        local permit = permit_of(sub(entry, 1, 32))
        local named = permit and not slot
        for _, one in ipairs(permit and permit.slots or {}) do named = named or one == slot end
        if named and permit.ends > NOW then
          if found then return 'M' end
          found = permit
        end
      end
    end
  end
  if not found then return 'N' end
  return end_by_force(found)
end
