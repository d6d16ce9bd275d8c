local answers = {}
for i, key in ipairs(KEYS) do
  local verdict = guarded(release, key, ARGV[2 * i - 1])
  if string.sub(verdict, 1, 1) ~= 'X' then
    local ask = ARGV[2 * i]
    local then_ask = parse(string.sub(ask, 1, 32), string.sub(ask, 33))
    verdict = verdict .. guarded(acquire, key, then_ask)
  end
  answers[i] = verdict
end
return table.concat(answers, '\n')
