-- A record whose sets do not go together: a key was lost, or Redis has executed a part of a call. Redis that cuts off
-- the end of its file in the middle of a call keeps the call's beginning there, and executes it at its next start.

-- Calls `each` with the members of a sorted set and their scores.
local function walk(key, each)
  for from = 0, call('ZCARD', key) - 1, 500 do
    local members = call('ZRANGE', key, from, from + 499, 'WITHSCORES')
    for at = 1, #members, 2 do each(members[at], members[at + 1]) end
  end
end

-- Executes a command for all members, a part of them at a time.
local function in_parts(command, key, members)
  for from = 1, #members, 500 do
    call(command, key, unpack(members, from, math.min(from + 499, #members)))
  end
end

-- Returns all permits that are stored with their end, the latest first: the one with the higher token, or confirmed.
local function stored_permits()
  local ends, permits = {}, {}
  walk(ENDS, function(attempt, score) ends[attempt] = tonumber(score) end)
  walk(PERMITS, function(text)
    local permit = parse_permit(text)
    permit.ends = ends[permit.attempt]
    permits[#permits + 1] = permit
  end)
  table.sort(permits, function(one, other)
    if one.base ~= other.base then return one.base > other.base end
    return one.text < other.text
  end)
  return permits
end

-- Keeps all permits that are stored as a whole, and removes what is left of others. An attempt has one permit and a
-- slot is in one permit: the latest one, since an earlier one had ended when it was granted. All slots without a
-- permit are free. If they were not before, it is unknown how their last permits ended: a token after those of the
-- permit is reserved as the lost one, which no release names.
function repair()
  save_returned()
  save_marks()
  local holds, taken, lost, dropped, over = {}, {}, {}, {}, {}
  sem.permits, sem.free = 0, 0
  for _, permit in ipairs(stored_permits()) do
    local whole = permit.ends and not holds[permit.attempt]
    for _, slot in ipairs(permit.slots) do whole = whole and not taken[slot] end
    if whole then
      holds[permit.attempt], sem.permits = true, sem.permits + 1
      latest = math.max(latest, permit.ends)
      for _, slot in ipairs(permit.slots) do
        taken[slot], sem.used = true, math.max(sem.used, slot + 1)
        if mark('t', slot) < permit.top then set_marks('t', { slot }, permit.top) end
      end
    else
      dropped[#dropped + 1] = permit.text
      for _, slot in ipairs(permit.slots) do
        if not taken[slot] and not lost[slot] and slot < sem.used then
          lost[slot] = true
          if mark('l', slot) < permit.base then set_marks('l', { slot }, permit.base) end
        end
      end
    end
  end
  walk(ENDS, function(attempt) if not holds[attempt] then over[#over + 1] = attempt end end)
  local was_free = {}
  walk(FREE, function(slot) was_free[tonumber(slot)] = true end)
  call('UNLINK', FREE)
  local free = {}
  for slot = 0, sem.used - 1 do
    if not taken[slot] then
      if not (was_free[slot] or lost[slot]) then
        local token = math.min(mark('t', slot) + 1, TOP)
        set_marks('t', { slot }, token)
        set_marks('l', { slot }, token)
      end
      free[#free + 1], free[#free + 2], sem.free = slot, slot, sem.free + 1
    end
  end
  in_parts('ZREM', PERMITS, dropped)
  in_parts('ZREM', ENDS, over)
  in_parts('ZADD', FREE, free)
  for _, key in ipairs({ ENDS, PERMITS, FREE, MARKS }) do created[key] = true end
  changed, first_end = true, nil
end
