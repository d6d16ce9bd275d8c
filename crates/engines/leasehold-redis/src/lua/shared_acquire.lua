-- Acquires and renews in both modes. The answers are those of acquire.lua.

local function say_granted(mode)
  return 'G' .. rec.base .. (mode == 'R' and rec.base or rec.top) .. (waiters_for(mode) > 0 and 'w' or '')
end

-- The place counts the phases ahead.
local function say_queued(ask)
  local ahead = call('ZRANK', QUEUE[ask.mode], ask.member) or count[ask.mode]
  local others = count[OTHER[ask.mode]]
  if ask.mode == 'R' then ahead = math.floor(ahead / CAP) else others = math.ceil(others / CAP) end
  local place = ahead + math.min(others, turn == ask.mode and ahead or ahead + 1)
  local left = time_left()
  local again = left == 0 and 0 or math.min(left + place * OFFER, 9999999999)
  return 'Q' .. NOW_TEXT .. string.format('%010.0f', again) .. string.format('%.0f', place)
end

local function say_busy() return 'B' .. string.format('%.0f', time_left()) end

-- Begins a phase with the caller.
local function begin_with(ask)
  local base, top = next_tokens(ask.mode, ask.tokens)
  if not base then return 'XT' end
  begin(ask.mode, base, top)
  join_caller(ask)
  tell_firsts(ask.attempt)
  return say_granted(ask.mode)
end

local function may_join(mode) return mode == 'R' and rec.state == 'R' and count.W == 0 end

-- Answers an attempt that is a member of the phase; nil if it must begin anew.
local function acquire_again(ask)
  local ends, confirmed = member_of(ask.attempt)
  if not ends then return nil end
  -- The writer has released a kept lock, or the attempt acquired in the other mode.
  if phase_mode() ~= ask.mode then return phase_alive() and 'E' or nil end
  if ends <= NOW then
    if ask.mode == 'W' then
      if confirmed then return nil end
      -- The offer came too late. No other attempt has held the lock since.
      lose()
      return begin_with(ask)
    end
    if not phase_alive() then return nil end
    if confirmed then
      lose()
      drop_member(ask.attempt)
      return nil
    end
  end
  extend(ask.attempt, ask.ttl)
  return say_granted(ask.mode)
end

local function acquire_taken(ask)
  local before = count.R
  lapse_and_admit(ask.attempt)
  if count.R < before and member_of(ask.attempt) then return say_granted(ask.mode) end
  if may_join(ask.mode) then
    join_caller(ask)
    return say_granted(ask.mode)
  end
  if not ask.wait then return say_busy() end
  -- The members know of the waiters that are queued already. A message may be lost: the first waiter repeats it.
  local known = waiters_for(phase_mode()) > 0
  local says
  if join_queue(ask) then says = not known else says = first_of(ask.mode) == ask.member end
  if says then tell_members() end
  return say_queued(ask)
end

local function acquire_free(ask)
  end_phase()
  local next = next_mode()
  local first = not next or first_of(next) == ask.member
  if not ask.fair or not next then return begin_with(ask) end
  if ask.wait then join_queue(ask) end
  pass_on((ask.wait or first) and ask.attempt)
  if rec.state == 'F' then
    if not rec.more then return begin_with(ask) end
    return ask.wait and say_queued(ask) or 'B0'
  end
  if member_of(ask.attempt) then return say_granted(ask.mode) end
  if may_join(ask.mode) then
    join_caller(ask)
    return say_granted(ask.mode)
  end
  return ask.wait and say_queued(ask) or say_busy()
end

local function shared_acquire(ask)
  for mode in pairs(QUEUE) do
    if count[mode] > 0 and call('ZSCORE', QUEUE[mode], ask.member) then ask.queued = mode end
  end
  local answer = 'E'
  if not is_refused(ask.attempt) and (ask.queued or ask.mode) == ask.mode then
    if ask.queued then note_asked(ask.attempt) end
    answer = acquire_again(ask) or (phase_alive() and acquire_taken(ask)) or acquire_free(ask)
  end
  finish()
  return answer
end

-- One acquire: mode(1: R or W) attempt(32), then its parameters as in acquire.lua.
local function parse_shared(text)
  local ask = parse(sub(text, 2, 33), sub(text, 34))
  ask.mode = sub(text, 1, 1)
  return ask
end

-- One renewal: attempt(32) base(16) ttl_ms(8). Its answer: R renewed | W renewed, and others wait | L lost.
local function shared_renew(text)
  local attempt, mode, answer = sub(text, 1, 32), phase_mode(), 'L'
  if mode and rec.base == sub(text, 33, 48) and holds(mode, attempt) then
    extend(attempt, tonumber(sub(text, 49, 56)))
    answer = waiters_for(mode) > 0 and 'W' or 'R'
  end
  finish()
  return answer
end
