-- KEYS: one record each. ARGV: two for each key, a release, and the acquire that follows it: attempt(32)
-- and its parameters.
-- The answers, one line each: the verdict of the release, immediately followed by the answer to the acquire.
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
