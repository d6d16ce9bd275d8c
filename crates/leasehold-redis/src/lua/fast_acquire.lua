local ttl_seen, ends, lives_at_least
for i = 1, #KEYS do
  local key, arg, answer = KEYS[i], ARGV[i], false
  local r = pcall_redis('GET', key)
  if type(r) == 'string' and sub(r, 1, 4) == 'L1F0' then
    local ttl = sub(arg, 34, 41)
    if ttl ~= ttl_seen then
      local at = batch_text + ttl * 1000
      ttl_seen, ends, lives_at_least = ttl, form('%016.0f', at), at + 3600000000
    end
    local lives = sub(r, 117, 132)
    local base, top, tokens = sub(r, 53, 68), nil, sub(arg, 42, 49)
    if base < batch_text then base = batch_text else base = form('%016.0f', base + 1) end
    if tokens == '00000001' then top = base else top = form('%016.0f', base + tokens - 1) end
    if lives + 0 >= lives_at_least and top <= '9007199254740991' then
      call('SETRANGE', key, '2', 'H0' .. sub(arg, 1, 32) .. base .. top .. sub(r, 69, 84) .. ends
        .. batch_text .. lives .. sub(arg, 50))
      answer = 'G' .. base .. top
      if #KEYS == 1 then return answer end
    end
  end
  answers[i], left = answer, left or not answer
end
if not left then return table.concat(answers, '\n') end
