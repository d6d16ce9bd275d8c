for i = 1, #KEYS do
  local key, arg, answer = KEYS[i], ARGV[i], false
  -- Base and last given, not suspect, nothing to keep.
  if sub(arg, 65, 73) == '300000000' then
    local r = pcall_redis('GETRANGE', key, '0', '99')
    local owned = sub(arg, 1, 48)
    if type(r) == 'string' and sub(r, 1, 52) == 'L1H0' .. owned and sub(r, 85, 100) > batch_text then
      local base, last = sub(arg, 33, 48), sub(arg, 49, 64)
      call('SETRANGE', key, '2', 'F0' .. owned .. (last < base and base or last))
      answer = 'R'
      if #KEYS == 1 then return answer end
    end
  end
  answers[i], left = answer, left or not answer
end
if not left then return table.concat(answers, '\n') end
