-- One step of a run: KEYS record; ARGV step, then what it needs. Times are milliseconds of the server's clock.
-- The record, a hash: state (running, completed, failed), token, until, print, tries, result
-- begin token lease print keep: W tries | B ms | C result | F reason | P (another payload) | X (not ours)
-- renew token lease keep | complete token result keep | fail token reason keep | leave token |
-- drop token: 1, or 0 when the run is not this token's any more; leave of no record: 1
-- While it runs, the record outlives the lease by keep, so that who comes next sees the tries.
local step, token = ARGV[1], ARGV[2]
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then return {'X'} end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local record = redis.call('HMGET', KEYS[1], 'v', 'state', 'token', 'until', 'print', 'tries', 'result')
if kind == 'hash' and record[1] ~= '1' then return {'X'} end
local state, owner = record[2], record[3]
if step == 'begin' then
  local lease, print, keep = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
  if state and record[5] ~= print then return {'P'} end
  if state == 'completed' then return {'C', record[7]} end
  if state == 'failed' then return {'F', record[7]} end
  local left = state and tonumber(record[4]) - now() or 0
  -- The same token asks again when it has not heard the answer.
  if left > 0 and owner ~= token then return {'B', left} end
  local tries = tonumber(record[6] or 0)
  if owner ~= token then tries = tries + 1 end
  redis.call('HSET', KEYS[1], 'v', '1', 'state', 'running', 'token', token, 'until', now() + lease,
    'print', print, 'tries', tries)
  redis.call('PEXPIRE', KEYS[1], keep + lease)
  return {'W', tries}
end
-- What was done already is done: the answer may have been lost.
local done = step == 'complete' and 'completed' or step == 'fail' and 'failed'
if kind == 'none' and step == 'leave' then return {'1'} end
if owner ~= token then return {'0'} end
if done and state == done then return {'1'} end
if state ~= 'running' then return {'0'} end
if step == 'renew' then
  redis.call('HSET', KEYS[1], 'until', now() + ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[3] + ARGV[4])
elseif step == 'drop' then
  redis.call('HSET', KEYS[1], 'until', 0)
elseif step == 'leave' then
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'state', done, 'result', ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return {'1'}
