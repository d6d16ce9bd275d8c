-- The record of a semaphore, as crates/leasehold-proto/src/semaphore.rs: how it is loaded and saved.
-- KEYS: the record, then its tombstones, queue, when each waiter asked last, permits by their end, permits by
-- attempt, free slots, and the tokens of each slot. One call concerns one semaphore.
local call, sub, form = redis.call, string.sub, string.format
local KEY, TOMBS, QUEUE, SEEN = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ENDS, PERMITS, FREE, MARKS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local PARTS = { QUEUE, SEEN, ENDS, PERMITS, FREE, MARKS }
-- The most expired permits that one call removes, and the most waiters that it serves.
local CAP = 256
local WAITER_LEASE = 45000000 -- us: how long a waiter stays in the queue without asking again
local SLOW_POLL = 15000 -- ms: waiters ask at least this often

-- limit (0: none is stored) and version; used: how many slots were ever used, which are 0 to used - 1; free: how
-- many of them are free; permits: how many there are, with the expired ones; lives: no permit ends later;
-- marked: 0 if MARKS does not exist; kept: true if the limit was changed, and must not expire.
local sem
local loaded, waiting = nil, 0
-- The latest end of a permit that this call writes, and the keys that it may have created.
local latest, created, messages = 0, {}, {}
-- True if this call has granted permits or taken them back. Clients that observe the record then read it again,
-- although its bytes may be the same.
local changed = false
-- True if the first waiter may have changed, or the time when it can enter.
local moved = false
-- True if this call did as much as it may, and another one may do more.
local more = false
-- Slots that this call has taken back and that FREE still lacks, and their number: most are granted again at once.
local returned, returns = {}, 0
-- Tokens by letter and slot, as far as they were read; those that MARKS still lacks, and their number.
local marks, new_marks, changes = {}, {}, 0
-- So many of either are kept at most, and written then.
local BATCH = 64
-- The end of the first permit and its attempt, once they were read: false if there is none.
local first_end, first_attempt

-- Keeps what is stored as a whole; semaphore_repair.lua has it.
local repair

-- Forgets all permits and slots: without the tokens of slots, as if the server had lost all.
local function start_over()
  call('UNLINK', ENDS, PERMITS, FREE, MARKS)
  sem.used, sem.free, sem.permits, sem.marked = 0, 0, 0, 0
end

-- Loads the semaphore. Returns a reason if the value is not a semaphore of this version.
local function load_semaphore()
  local r = redis.pcall('GET', KEY)
  if type(r) == 'table' then
    if not string.find(r.err, 'WRONGTYPE') then error(r) end
    return 'F'
  end
  if not r then
    -- Other keys would have data of a record that was lost.
    call('UNLINK', unpack(PARTS))
    sem = { limit = 0, version = 0, used = 0, free = 0, permits = 0, marked = 0, lives = 0, kept = false }
    return
  end
  local why = why_unread(r)
  if why ~= 'K' then return is_lock(r) and 'K' or why end
  loaded = r
  sem = {
    kept = sub(r, 3, 3) == 'K',
    lives = tonumber(sub(r, 4, 19)),
    limit = tonumber(sub(r, 20, 24)),
    version = tonumber(sub(r, 25, 40)),
    used = tonumber(sub(r, 41, 45)),
    free = tonumber(sub(r, 46, 50)),
    permits = tonumber(sub(r, 51, 55)),
  }
  sem.marked = sem.used
  waiting = call('ZCARD', QUEUE)
  -- The keys of an idle semaphore expire before a limit that is kept.
  if call('EXISTS', MARKS) ~= (sem.used > 0 and 1 or 0) then return start_over() end
  local complete = call('ZCARD', ENDS) == sem.permits and call('ZCARD', PERMITS) == sem.permits
    and call('ZCARD', FREE) == sem.free
  if not complete then repair() end
end

-- Stores the first limit.
local function begin(limit) sem.limit, sem.version = limit, 1 end

-- Adds members with their scores to a sorted set of which `before` members are known.
local function add(key, before, members)
  if before == 0 then created[key] = true end
  call('ZADD', key, unpack(members))
end

-- Writes the slots that were taken back and not granted again.
local function save_returned()
  if returns == 0 then return end
  local members = {}
  for slot in pairs(returned) do members[#members + 1], members[#members + 2] = slot, slot end
  add(FREE, sem.free - returns, members)
  returned, returns = {}, 0
end

-- Writes the changed tokens of slots.
local function save_marks()
  if changes == 0 then return end
  local members = {}
  for name, token in pairs(new_marks) do
    members[#members + 1], members[#members + 2] = digits(token), name
  end
  add(MARKS, sem.marked, members)
  sem.marked, new_marks, changes = 1, {}, 0
end

-- Saves the semaphore, and sends the messages. All keys expire together, KEPT after `lives`.
local function save()
  save_returned()
  save_marks()
  if sem.limit > 0 then
    local last = math.max(latest, NOW)
    local renewed = sem.lives < last
    if renewed then sem.lives = last + SPARE end
    local r = 'S1' .. (sem.kept and 'K' or '-') .. digits(sem.lives) .. form('%05d', sem.limit)
      .. digits(sem.version) .. form('%05d%05d%05d', sem.used, sem.free, sem.permits)
    local life = form('%.0f', (sem.lives + KEPT - NOW) / 1000)
    if sem.kept and (not loaded or sub(loaded, 3, 3) == '-') then
      call('SET', KEY, r)
    elseif renewed and not sem.kept then
      call('SET', KEY, r, 'PX', life)
    elseif changed or r ~= loaded then
      call('SETRANGE', KEY, '0', r)
    end
    for _, key in ipairs(PARTS) do
      if renewed or created[key] then call('PEXPIRE', key, life) end
    end
  end
  for _, message in ipairs(messages) do call('PUBLISH', message[1], message[2]) end
end

local function send(attempt, text) messages[#messages + 1] = { channel(attempt), text } end

local function held() return sem.used - sem.free end

-- Parses a permit: attempt(32) state(1: H if confirmed, else O) base(16) top(16) since(16) slots;length(4) tail.
-- All scores are 0, so the permits are in the order of their bytes.
local function parse_permit(text)
  local slots, tail = string.match(text, '^([%d,]*);(.*)$', 82)
  local permit = {
    text = text, attempt = sub(text, 1, 32), confirmed = sub(text, 33, 33) == 'H',
    base = tonumber(sub(text, 34, 49)), top = tonumber(sub(text, 50, 65)), slots = {}, list = slots, tail = tail,
  }
  for slot in string.gmatch(slots, '%d+') do permit.slots[#permit.slots + 1] = tonumber(slot) end
  return permit
end

-- Returns the permit of an attempt, with its end; nil if it has none.
local function permit_of(attempt)
  local ends = sem.permits > 0 and call('ZSCORE', ENDS, attempt)
  if not ends then return nil end
  local from, to = '[' .. attempt, '(' .. attempt .. 'Z'
  local text = call('ZRANGE', PERMITS, from, to, 'BYLEX', 'LIMIT', '0', '1')[1]
  -- The sets are as large as they must be, with other members.
  if not text then return repair() end
  local permit = parse_permit(text)
  permit.ends = tonumber(ends)
  return permit
end

-- Returns the time when the next permit expires, and its attempt.
local function next_end()
  if first_end == nil then
    local first = sem.permits > 0 and call('ZRANGE', ENDS, '0', '0', 'WITHSCORES') or {}
    first_end, first_attempt = tonumber(first[2]) or false, first[1]
  end
  return first_end or nil, first_attempt
end

-- Returns the time until then, in ms, rounded up.
local function time_left()
  local ends = next_end()
  return ends and math.ceil(math.max(0, ends - NOW) / 1000) or SLOW_POLL
end

-- Returns a token of a slot: t the highest that was ever reserved, l the first one of the last permit that ended
-- without a release.
local function mark(letter, slot)
  local name = letter .. slot
  marks[name] = marks[name] or tonumber(call('ZSCORE', MARKS, name) or 0)
  return marks[name]
end

-- Changes one such token of these slots.
local function set_marks(letter, slots, token)
  if changes >= BATCH then save_marks() end
  for _, slot in ipairs(slots) do
    local name = letter .. slot
    if not new_marks[name] then changes = changes + 1 end
    marks[name], new_marks[name] = token, token
  end
end

-- Takes the slots of a permit back. `lost`: it ended without a release.
local function take_back(permit, lost)
  changed, moved, first_end = true, true, nil
  call('ZREM', ENDS, permit.attempt)
  call('ZREM', PERMITS, permit.text)
  if lost then set_marks('l', permit.slots, permit.base) end
  if returns >= BATCH then save_returned() end
  for _, slot in ipairs(permit.slots) do returned[slot] = true end
  returns = returns + #permit.slots
  sem.free, sem.permits = sem.free + #permit.slots, sem.permits - 1
end

-- Confirms a permit, and extends it to `ttl` ms from now.
local function extend(permit, ttl)
  permit.ends, first_end = math.max(permit.ends, NOW + ttl * 1000), nil
  call('ZADD', ENDS, digits(permit.ends), permit.attempt)
  if not permit.confirmed then
    -- In this order: the key of the last permit would be a new one, which does not expire.
    call('ZADD', PERMITS, '0', permit.attempt .. 'H' .. sub(permit.text, 34))
    call('ZREM', PERMITS, permit.text)
  end
  latest = math.max(latest, permit.ends)
end

local function is_refused(attempt)
  local over = call('ZSCORE', TOMBS, attempt)
  return over and tonumber(over) > NOW
end
