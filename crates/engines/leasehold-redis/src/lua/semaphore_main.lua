-- ARGV: one letter and its arguments; semaphore_steps.lua has their answers.
--   A ask               acquire        N leases         renew        E end [ask]   end, and acquire then
--   L version limit     set the limit  F token slot     end by force
--   O attempt           end the permit of this attempt by force
-- Any answer may be X why: as in acquire.lua, or K another kind.
local op = ARGV[1]

local function run()
  local why = load_semaphore()
  if why then
    if op == 'N' then return string.rep('L', #ARGV[2] / 56) end
    if op ~= 'E' then return 'X' .. why end
    local verdict = tonumber(sub(ARGV[2], 65, 66)) % 2 == 1 and 'L' or 'G'
    return verdict .. (ARGV[3] and 'X' .. why or '')
  end
  local answer
  if op == 'A' then
    answer = acquire_permit(parse_ask(ARGV[2]))
  elseif op == 'N' then
    answer = renew_permits(ARGV[2])
  elseif op == 'E' then
    answer = release_permit(ARGV[2])
    if ARGV[3] then answer = answer .. acquire_permit(parse_ask(ARGV[3])) end
  elseif op == 'L' then
    answer = set_limit(ARGV[2])
  elseif op == 'O' then
    answer = force_one(ARGV[2])
  else
    answer = force_permit(ARGV[2])
  end
  save()
  return answer
end

return guarded(run)
