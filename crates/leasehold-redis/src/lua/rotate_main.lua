-- KEYS: one record each. ARGV: two each, an end and an ask to do then.
-- The answers, a line each: the verdict, and right after it the answer to the ask.
local answers = {}
for i, key in ipairs(KEYS) do
  local verdict = guarded(release, key, ARGV[2 * i - 1])
  if string.sub(verdict, 1, 1) ~= 'X' then
    verdict = verdict .. guarded(acquire, key, parse(ARGV[2 * i]))
  end
  answers[i] = verdict
end
return table.concat(answers, '\n')
