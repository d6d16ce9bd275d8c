-- ARGV: one letter and its arguments.
--   A ask               acquire: shared_acquire.lua
--   N lease             renew: shared_acquire.lua
--   E end [ask]         end, and acquire then: the verdict of release.lua, then the answer to the acquire
--   D end ask           downgrade        U end ask again(1)   upgrade        F token(16)   end by force
--   O attempt           end one member by force
-- Any answer may be X why, as in acquire.lua.
local op = ARGV[1]

local function run()
  local why = load_lock()
  if why then
    if op == 'N' then return 'L' end
    if op ~= 'E' then return 'X' .. why end
    local verdict = parse_end(ARGV[2]).base and 'L' or 'G'
    return verdict .. (ARGV[3] and 'X' .. why or '')
  end
  local answer
  if op == 'A' then
    answer = shared_acquire(parse_shared(ARGV[2]))
  elseif op == 'N' then
    answer = shared_renew(ARGV[2])
  elseif op == 'E' then
    answer = shared_release(parse_end(ARGV[2]))
    if ARGV[3] then answer = answer .. shared_acquire(parse_shared(ARGV[3])) end
  elseif op == 'F' then
    answer = force(ARGV[2])
  elseif op == 'O' then
    answer = force_one(ARGV[2])
  else
    local ending, ask = parse_end(ARGV[2]), parse_shared(ARGV[3])
    if op == 'D' then answer = downgrade(ending, ask) else answer = upgrade(ending, ask, ARGV[4] == '1') end
    finish()
  end
  save()
  return answer
end

return guarded(run)
