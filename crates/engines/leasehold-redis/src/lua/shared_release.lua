-- Ends attempts in both modes, and converts leases from one mode to the other.

-- One end, in the form that release.lua describes.
local function parse_end(text)
  local flags = tonumber(sub(text, 65, 65))
  return {
    attempt = sub(text, 1, 32),
    base = flags % 2 == 1 and sub(text, 33, 48) or nil,
    last = flags % 4 >= 2 and sub(text, 49, 64) or nil,
    suspect = flags >= 4,
    keep = tonumber(sub(text, 66, 73)),
    member = sub(text, 74),
  }
end

-- Ends the lease of a member of the phase. Returns the verdict.
local function release_member(ending, ends)
  local mode, live, before = phase_mode(), ends > NOW, latest
  local same = not ending.base or ending.base == rec.base
  if not live then
    lose()
  elseif mode == 'W' and same and ending.base and ending.last then
    rec.top = ending.last > rec.base and ending.last or rec.base
  end
  if ending.keep > 0 and live and same and mode == 'W' then
    latest = NOW + ending.keep * 1000
    rec.state, rec.ends = 'K', digits(latest)
    tell_firsts(nil)
  else
    drop_member(ending.attempt)
    if not phase_alive() then
      end_phase()
      pass_on(nil)
    elseif latest < before then
      -- The timer of the first waiter counts on the lease that has ended.
      tell_firsts(nil)
    end
  end
  return live and same and 'R' or 'L'
end

local function shared_release(ending)
  local left, was_first
  if ending.member ~= '' then
    for mode in pairs(QUEUE) do
      local first = first_of(mode)
      if dequeue(mode, ending.member) then left, was_first = mode, first == ending.member end
    end
  end
  if ending.suspect then refuse(ending.attempt) end
  local ends, verdict = phase_mode() and member_of(ending.attempt), nil
  if ends then
    verdict = release_member(ending, ends)
  else
    if was_first and (left == 'W' or rec.state ~= 'R') then tell_first(left, nil) end
    verdict = verdict_on_the_past(rec, ending.base)
  end
  finish()
  return told(rec, verdict)
end

-- Ends the lease of a writer, and begins a read phase with another attempt of its client. The queued readers
-- enter with it. Answer: as to an acquire, or L.
local function downgrade(ending, ask)
  if is_refused(ask.attempt) then return 'L' end
  if holds('R', ask.attempt) then
    extend(ask.attempt, ask.ttl)
    return say_granted('R')
  end
  local owner = holds('W', ending.attempt) and ending.base == rec.base
  if owner and not next_tokens('R', 1) then return 'XT' end
  if ending.suspect then refuse(ending.attempt) end
  if not owner then return 'L' end
  if ending.last then rec.top = ending.last > rec.base and ending.last or rec.base end
  begin('R', next_tokens('R', 1))
  join_caller(ask)
  admit(nil)
  tell_firsts(nil)
  return say_granted('R')
end

local function reads_alone(attempt)
  local last = call('ZRANGE', MEMBERS, '0', '1', 'REV', 'WITHSCORES')
  for i = 1, #last, 2 do
    if last[i] ~= attempt and tonumber(last[i + 1]) > NOW then return false end
  end
  return true
end

-- Makes the only reader a writer, as another attempt of its client. If it is refused after it was repeated, a
-- late copy is refused too. Answer: as to an acquire, or D w? (refused) or L.
local function upgrade(ending, ask, again)
  local refused = 'D' .. (count.W > 0 and 'w' or '')
  if is_refused(ask.attempt) then return refused end
  if holds('W', ask.attempt) then
    extend(ask.attempt, ask.ttl)
    return say_granted('W')
  end
  local reads = holds('R', ending.attempt) and ending.base == rec.base
  if not (reads and count.W + count.R == 0 and reads_alone(ending.attempt)) then
    if again then refuse(ask.attempt) end
    return reads and refused or 'L'
  end
  local base, top = next_tokens('W', ask.tokens)
  if not base then return 'XT' end
  if ending.suspect then refuse(ending.attempt) end
  if call('ZCARD', MEMBERS) > 1 then lose() end
  begin('W', base, top)
  join_caller(ask)
  return say_granted('W')
end

-- Ends the lease of one member of the phase by force. Answer: as force_release_main.lua.
local function force_one(attempt)
  local ends, before = phase_mode() and member_of(attempt), latest
  local live = ends and ends > NOW
  if live then
    if take_notice() then send(attempt, 'L' .. attempt .. rec.base .. KEY) end
    lose()
    drop_member(attempt)
    if not phase_alive() then
      end_phase()
      pass_on(nil)
    elseif latest < before then
      tell_firsts(nil)
    end
  end
  finish()
  return told(rec, live and 'E' or 'N')
end

-- Ends the phase that has this token, with the leases of all members. Answer: as force_release_main.lua.
local function force(token)
  local live, named = phase_alive(), token >= rec.base and token <= rec.top
  if live and not named then return 'O' .. rec.base end
  if named and rec.state ~= 'F' then
    local held = live and phase_mode()
    if held == 'W' and take_notice() then
      send(rec.owner, 'L' .. rec.owner .. rec.base .. KEY)
    elseif held == 'R' then
      local last = call('ZRANGE', MEMBERS, '0', CAP - 1, 'REV', 'WITHSCORES')
      for i = 1, #last, 2 do
        if tonumber(last[i + 1]) <= NOW or not take_notice() then break end
        send(last[i], 'L' .. last[i] .. rec.base .. KEY)
      end
    end
    end_phase()
    pass_on(nil)
  end
  finish()
  return told(rec, live and 'E' or 'N')
end
