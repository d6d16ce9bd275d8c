-- The steps, for each format. Notes of our clients: t the last token, h the last attempt that held, s since when (ms), o who
-- that is, l the attempt that released last, x the one that was lost last. And f when another library's holder was seen last (ms), r how often we acquired since then in a row, u until when
-- we leave the lock to others (ms).
local ENDED = 60000 -- ms: how long an ended attempt is remembered
local IN_A_ROW = 16 -- so often clients of ours acquire before they leave a gap to clients that poll
local GAP = 250 -- ms
local SEEN = 10000 -- ms: a gap is left if another library's holder was seen this lately
local NOW_MS = math.floor(NOW_TEXT / 1000)

-- Keeps the notes beyond a lease of so many ms, or as long as after a lease, and until RETAIN after the clock has passed
-- this token: without notes it is the clock that the next one is above.
local function stay(ms, token)
  local longer = RETAIN + (ms or 0)
  if token then longer = longer + math.max(token - NOW_TEXT, 0) / 1000 end
  if redis.call('PTTL', NOTES) < longer then redis.call('PEXPIRE', NOTES, string.format('%.0f', longer)) end
end

local function note(...)
  redis.call('HSET', NOTES, ...)
  stay()
end

-- Returns for how long we leave a free lock to others, in ms.
local function gap()
  local said = redis.call('HMGET', NOTES, 'f', 'r', 'u')
  local seen, row, ends = said[1], (said[2] or 0) + 0, said[3]
  if not seen or NOW_MS - seen > SEEN then return 0 end
  if ends then
    if NOW_MS < ends + 0 and ends - NOW_MS <= GAP then return ends - NOW_MS end
    redis.call('HDEL', NOTES, 'u', 'r')
    return 0
  end
  if row < IN_A_ROW then return 0 end
  note('u', string.format('%.0f', NOW_MS + GAP))
  return GAP
end

-- ARGV: ttl in ms, the holder for display. Answers: A token(16) granted; B ms taken, for so long (-1: without an end);
-- G ms left to others for so long; E the attempt was ended; F a value of no known format.
local function acquire()
  if redis.call('EXISTS', TOMBSTONE) == 1 then return 'E' end
  local found, owner = look()
  if found == 'foreign' then return 'F' end
  if found == 'mine' then
    prolong(ARGV[3])
    if not last_token() then note('t', next_token(), 'h', ME, 'o', ARGV[4]) end
    stay(ARGV[3], last_token())
    return 'A' .. last_token()
  end
  if found == 'taken' then
    if not is_ours(owner) then
      local seen = redis.call('HGET', NOTES, 'f')
      if not seen or NOW_MS - seen > 1000 or NOW_MS < seen + 0 then
        note('f', string.format('%.0f', NOW_MS))
      end
      redis.call('HDEL', NOTES, 'r', 'u')
    end
    return 'B' .. left()
  end
  local ms = gap()
  if ms > 0 then return 'G' .. string.format('%.0f', ms) end
  local last = redis.call('HMGET', NOTES, 't', 'h', 'l')
  take(ARGV[3])
  local token = next_token(last[1])
  if last[2] and last[2] ~= last[3] then note('x', last[2]) end
  note('t', token, 'h', ME, 's', string.format('%.0f', NOW_MS), 'o', ARGV[4])
  redis.call('HINCRBY', NOTES, 'r', '1')
  stay(ARGV[3], token)
  return 'A' .. token
end

-- ARGV: ttl in ms, the token, the holder for display. Answers: R renewed, L lost.
local function renew()
  if look() ~= 'mine' then
    drop(ME)
    return 'L'
  end
  prolong(ARGV[3])
  if redis.call('HGET', NOTES, 'h') ~= ME then
    -- The server has lost them, as one that evicts keys does.
    if (last_token() or '') < ARGV[4] then raise(ARGV[4]) end
    note('h', ME, 'o', ARGV[5])
  end
  stay(ARGV[3], ARGV[4])
  return 'R'
end

-- ARGV: the token that the lease has, at all servers of the lock or under both of its names. Answers: C committed, L lost.
local function commit()
  if look() ~= 'mine' then return 'L' end
  raise(ARGV[3])
  stay(nil, ARGV[3])
  return 'C'
end

-- ARGV: the token of the lease or 0, and 1 if a request of the attempt may come late. Answers: R released, L lost, U one of
-- both, N it had no lease.
local function finish()
  if ARGV[4] == '1' then redis.call('SET', TOMBSTONE, '', 'PX', ENDED) end
  if look() == 'mine' then
    note('l', ME)
    free(ME)
    return 'R'
  end
  drop(ME)
  local said = redis.call('HMGET', NOTES, 'h', 'l', 'x')
  if said[2] == ME then return 'R' end
  if ARGV[3] + 0 == 0 then return 'N' end
  return (said[1] == ME or said[3] == ME) and 'L' or 'U'
end

-- Answers: what the key holds, its owner (of a free lock our last one), for how many ms, our last token, our last holder, and
-- since when.
local function status()
  local found, owner = look()
  local last = redis.call('HMGET', NOTES, 'h', 'o', 's')
  if found == 'none' then owner = last[1] end
  return { found, owner or '', left(), last_token() or '', last[2] or '', last[3] or '' }
end

-- ARGV: the token to end. Answers: E ended, N not held by a client of ours, O token(16) it has another token, U the notes
-- about it are gone.
local function force()
  local found, owner = look()
  if found ~= 'taken' or not is_ours(owner) then return 'N' end
  local token = last_token()
  if not token then return 'U' end
  if token + 0 ~= ARGV[3] + 0 then return 'O' .. token end
  free(owner)
  return 'E'
end

local steps = { A = acquire, C = commit, R = renew, E = finish, S = status, X = force }
return steps[ARGV[1]]()
