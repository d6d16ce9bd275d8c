-- The record of a lock that clients read under or wait to read, as
-- crates/leasehold-proto/src/read_write.rs: its members, its queues, and how it is loaded and saved. It handles
-- exclusive records too, so a client may call it for any lock.
-- KEYS: the record, then its queue of writers, queue of readers, tombstones, members, their tails, and when
-- each waiter asked last. One call concerns one lock.
local call, sub = redis.call, string.sub
local KEY, QUEUE, TOMBS = KEYS[1], { W = KEYS[2], R = KEYS[3] }, KEYS[4]
local MEMBERS, TAILS, SEEN = KEYS[5], KEYS[6], KEYS[7]
local OTHER = { R = 'W', W = 'R' }
-- The most waiters that one call grants a lease to or removes; it sends one more message of other kinds.
local CAP = 256
local WAITER_LEASE = 45000000 -- us: how long a waiter stays in the queue without asking again
local REAPED = 2 -- the most members that one new member removes because they expired long ago

-- The record; the mode that goes first at the next hand-off; the time when the last lease ends, 0 if the
-- lock is free; how many wait in each mode.
local rec, turn, latest, count
local offers, notices, messages = CAP, CAP + 1, {}
local fresh, was_shared = false, false
-- saw_waiter: this call has noted when a waiter asked. saw_member: it has added a member, or extended one.
local saw_waiter, saw_member = false, false
-- The keys that this call may have created, which expire with the record.
local created = {}
-- The first entry of each queue, false if it is empty, and when waiters asked last, as far as this call knows.
local heads, asked = {}, {}
-- Entries of TAILS by attempt, false if there is none, as far as this call knows.
local tails = {}

-- Returns the time when the last lease of a read phase ends.
local function last_end()
  return tonumber(call('ZRANGE', MEMBERS, '0', '0', 'REV', 'WITHSCORES')[2] or 0)
end

-- Loads the lock. Returns a reason if the value is not a lock of this version.
local function load_lock()
  local r = redis.pcall('GET', KEY)
  if type(r) == 'table' then
    if not string.find(r.err, 'WRONGTYPE') then error(r) end
    return 'F'
  end
  turn = 'R'
  if r then
    local why = why_unread(r)
    if why ~= 'S' then return why end
    rec = fields(r)
    was_shared = sub(r, 1, 2) == 'L2' or sub(r, 36, 36) > '3'
    if sub(r, 1, 2) == 'L2' then
      if rec.state ~= 'R' and rec.state ~= 'F' then return 'F' end
      turn = 'W'
    end
  else
    rec, fresh = blank(), true
    rec.tombs = call('EXISTS', TOMBS) == 1
  end
  count = { W = call('ZCARD', QUEUE.W), R = call('ZCARD', QUEUE.R) }
  if rec.state == 'R' then latest = last_end()
  elseif rec.state == 'F' then latest = 0
  else latest = tonumber(rec.ends)
  end
end

-- Saves the lock, and sends the messages. A record that no client reads under is written as an exclusive
-- one: with 4 in its flags if clients wait to read, since only these scripts let them in.
local function save()
  local waits = count.W + count.R > 0
  local version = (rec.state == 'R' or rec.state == 'F' and turn == 'W' and waits) and 'L2' or 'L1'
  local last, written = math.max(latest, NOW), not fresh or rec.base ~= NEVER
  -- The record lives longer by this call, and so do the other keys.
  local renewed = not written or tonumber(rec.lives) < last
  local lives = renewed and last + SPARE or tonumber(rec.lives)
  local life = string.format('%.0f', (lives + KEPT - NOW) / 1000)
  local function keep(key)
    if renewed or created[key] then call('PEXPIRE', key, life) end
  end
  if version == 'L1' and count.R == 0 then
    if fresh or was_shared or saw_waiter or saw_member then call('UNLINK', MEMBERS, TAILS, SEEN) end
  else
    if rec.state == 'R' then
      keep(MEMBERS)
      keep(TAILS)
    end
    if saw_waiter then call('PEXPIRE', SEEN, life) else keep(SEEN) end
  end
  if waits then
    keep(QUEUE.W)
    keep(QUEUE.R)
  end
  if written then
    if rec.state == 'R' then rec.ends = digits(latest) end
    local flags = (count.W > 0 and 1 or 0) + (rec.tombs and 2 or 0) + (count.R > 0 and 4 or 0)
    write_as(KEY, rec, version, flags)
  end
  for _, message in ipairs(messages) do call('PUBLISH', message[1], message[2]) end
end

local function phase_alive() return rec.state ~= 'F' and latest > NOW end

-- Returns the mode of the phase, unless the lock is free or kept.
local function phase_mode()
  if rec.state == 'R' then return 'R' end
  return (rec.state == 'H' or rec.state == 'O') and 'W' or nil
end

-- Returns how long the phase lasts without renewals, in ms, rounded up.
local function time_left()
  return rec.state == 'F' and 0 or math.ceil(math.max(0, latest - NOW) / 1000)
end

-- Returns a member's entry in TAILS: attempt(32), H if it is confirmed, else O, and the tail. All scores
-- are 0, so the entries are in the order of their bytes.
local function tail_of(attempt)
  if tails[attempt] == nil then
    local from, to = '[' .. attempt, '(' .. attempt .. 'Z'
    tails[attempt] = call('ZRANGE', TAILS, from, to, 'BYLEX', 'LIMIT', '0', '1')[1] or false
  end
  return tails[attempt] or nil
end

local function put_tail(attempt, state, tail)
  tails[attempt] = nil
  call('ZADD', TAILS, '0', attempt .. state .. tail)
end

-- Returns when the lease of a member ends, and whether it is confirmed; nil if it is no member.
local function member_of(attempt)
  if rec.state == 'R' then
    local ends = call('ZSCORE', MEMBERS, attempt)
    if not ends then return nil end
    return tonumber(ends), sub(tail_of(attempt) or '', 33, 33) == 'H'
  elseif rec.state ~= 'F' and rec.owner == attempt then
    return latest, rec.state ~= 'O'
  end
end

-- Returns true if the attempt has a lease in this mode that has not expired.
local function holds(mode, attempt)
  local ends = phase_mode() == mode and member_of(attempt)
  return ends and ends > NOW
end

-- Records that a lease of the phase has ended without a release. For a read phase the lost token is the
-- one after its own, which is reserved for this: a late release of another reader is then told that the
-- record does not know.
local function lose()
  if rec.state == 'R' then rec.lost = digits(rec.base + 1)
  elseif phase_mode() then rec.lost = rec.base
  end
end

-- Removes a member of a read phase.
local function drop_reader(attempt)
  local tail = tail_of(attempt)
  if tail then call('ZREM', TAILS, tail) end
  tails[attempt] = nil
  call('ZREM', MEMBERS, attempt)
end

-- The next member creates the keys of members.
local function forget_members()
  tails, created[MEMBERS], created[TAILS] = {}, true, true
end

local function drop_member(attempt)
  if rec.state == 'R' then
    drop_reader(attempt)
    latest = last_end()
    if latest == 0 then forget_members() end
  else
    rec.state, latest = 'F', 0
  end
end

-- Confirms a lease, and extends it to `ttl` ms from now.
local function extend(attempt, ttl)
  local ends, confirmed = member_of(attempt)
  ends = math.max(ends, NOW + ttl * 1000)
  if rec.state == 'R' then
    call('ZADD', MEMBERS, digits(ends), attempt)
    if not confirmed then
      local tail = tail_of(attempt)
      put_tail(attempt, 'H', tail and sub(tail, 34) or '0000')
      if tail then call('ZREM', TAILS, tail) else created[TAILS] = true end
    end
    saw_member = true
  else
    rec.state, rec.ends = 'H', digits(ends)
  end
  latest = math.max(latest, ends)
end

-- Returns the first entry of the queue of a mode.
local function first_of(mode)
  if heads[mode] == nil then
    heads[mode] = count[mode] > 0 and call('ZRANGE', QUEUE[mode], '0', '0')[1] or false
  end
  return heads[mode] or nil
end

-- Notes that a waiter asks now.
local function note_asked(attempt)
  call('ZADD', SEEN, NOW_TEXT, attempt)
  saw_waiter, asked[attempt] = true, NOW
end

-- Returns when a waiter asked last. The scripts of exclusive locks do not note it: the time then counts
-- from now on.
local function asked_at(attempt)
  if not asked[attempt] then
    local seen = call('ZSCORE', SEEN, attempt)
    if seen then asked[attempt] = tonumber(seen) else note_asked(attempt) end
  end
  return asked[attempt]
end

-- Removes an entry from the queue of a mode. Returns true if it was there.
local function dequeue(mode, member)
  if count[mode] == 0 or call('ZREM', QUEUE[mode], member) == 0 then return false end
  call('ZREM', SEEN, sub(member, 1, 32))
  count[mode], heads[mode] = count[mode] - 1, nil
  return true
end

local function last_ticket(mode)
  return tonumber(count[mode] > 0 and call('ZRANGE', QUEUE[mode], '-1', '-1', 'WITHSCORES')[2] or 0)
end

-- Adds a waiter behind all others, unless it is queued. Returns true if it is new.
local function join_queue(ask)
  local mode = ask.mode
  note_asked(ask.attempt)
  if ask.queued then
    created[QUEUE[mode]] = true
    return false
  end
  local ticket = math.max(NOW, last_ticket('W') + 1, last_ticket('R') + 1)
  call('ZADD', QUEUE[mode], string.format('%.0f', ticket), ask.member)
  if count[mode] == 0 then created[QUEUE[mode]], heads[mode] = true, ask.member end
  count[mode] = count[mode] + 1
  return true
end

local function is_refused(attempt)
  local over = rec.tombs and call('ZSCORE', TOMBS, attempt)
  return over and tonumber(over) > NOW
end

-- Writes a tombstone: requests of this attempt are refused.
local function refuse(attempt)
  bury(KEY, rec, attempt)
  rec.tombs = true
end
